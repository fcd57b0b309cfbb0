#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# The whole way of the data, on NVMe controllers that we did not write: of different size, block size,
# transfer size and number of queues; one with several namespaces, of which two are drives, one with a
# controller memory buffer.  With both widths of the IOMMU's addresses: once as root with huge pages, once as an ordinary
# user with ordinary pages and a limit, and with two cores.  WIDTHS=48: that one only, which a short
# run does, since guest_rdma.sh is as the first.
cd "$(dirname "$0")/../.." && . test/guest/lib.sh

case ${TEST_LENGTH:-} in
short) : "${WIDTHS:=48}" ;;
*) : "${WIDTHS:=39 48}" ;;
esac
make_tree "$OUT/src" 150
cp -r appliance meta "$OUT/src/"
describe "$OUT/src" >"$OUT/tree.src"

nvme d0 256M addr=4,mdts=5 logical_block_size=4096,physical_block_size=4096
nvme d1 64M addr=5,max_ioqpairs=4,msix_qsize=5 logical_block_size=512
namespace d1b d1 2 320M logical_block_size=512
namespace d1c d1 3 128M logical_block_size=4096,physical_block_size=4096
nvme d2 192M addr=6,cmb_size_mb=16,mdts=3 logical_block_size=4096,physical_block_size=4096
DRIVES="pci:0000:00:04.0 pci:0000:00:05.0?nsid=2 pci:0000:00:05.0?nsid=3 pci:0000:00:06.0"

for width in $WIDTHS; do
	IOMMU=,aw-bits=$width
	case $width in
	39) GUEST_CONF="huge=160
export DRIVES='$DRIVES'" ;;
	48) GUEST_CONF="export DRIVES='$DRIVES' USER_MEMLOCK=$((512 << 20)) APP_CORES=${APP_CORES:-2}" ;;
	esac
	boot tree.sh
done
finish

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# The whole way of the data over RDMA: NVMe controllers, the appliance's memory, RDMA WRITE, the
# client's buffer, on soft-RoCE in one guest.
cd "$(dirname "$0")/../.." && . test/guest/lib.sh

make_tree "$OUT/src" 150
cp -r appliance "$OUT/src/"
describe "$OUT/src" >"$OUT/tree.src"

# A fault takes up to half a minute here.
case ${TEST_LENGTH:-short} in
short) FAULTS=0 ;;
long) FAULTS=3 ;;
*) FAULTS=20 ;;
esac

nvme d0 256M addr=4,mdts=5 logical_block_size=4096,physical_block_size=4096
nvme d1 192M addr=5 logical_block_size=4096,physical_block_size=4096
QEMU_MORE="-netdev user,id=n0,restrict=on -device virtio-net-pci,netdev=n0,addr=0x10"
GUEST_CONF="huge=160
modules='9p 9pnet_virtio virtio_pci virtio_net crc32_generic rdma_rxe ib_uverbs rdma_ucm'
export DRIVES='pci:0000:00:04.0 pci:0000:00:05.0' FAULTS=$FAULTS"
boot rdma.sh
finish

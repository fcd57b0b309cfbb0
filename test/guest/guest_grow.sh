#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# NVMe controllers that are added to a store while it serves: all memory that is mapped for the first
# drive must be the others', too, behind an IOMMU, with queues for both cores.
cd "$(dirname "$0")/../.." && . test/guest/lib.sh

case ${TEST_LENGTH:-} in
short) echo "skip: controllers that are added are in the longer tests"; exit ;;
esac
make_tree "$OUT/src" 60
describe "$OUT/src" >"$OUT/tree.src"
nvme d0 128M addr=4,mdts=5 logical_block_size=4096,physical_block_size=4096
nvme d1 256M addr=5,mdts=3 logical_block_size=512
GUEST_CONF="export FIRST=pci:0000:00:04.0 SECOND=pci:0000:00:05.0 APP_CORES=${APP_CORES:-2}"
boot grow.sh
finish

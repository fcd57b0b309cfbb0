#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# The whole way of the data over RDMA: NVMe controllers, the appliance's memory, RDMA WRITE, the
# client's buffer, on soft-RoCE in one guest.
cd "$(dirname "$0")/../.." && . test/guest/lib.sh

make_tree "$OUT/src" 150
cp -r appliance/core "$OUT/src/"
describe "$OUT/src" >"$OUT/tree.src"

# FAULTS="link" FAULT_COUNT=20: that one only, as often.  A fault takes 2 to 10 s here.
case ${TEST_LENGTH:-short} in
short) : "${FAULT_COUNT:=1}" "${FAULTS:=client appliance qp_appliance}" ;;
long) : "${FAULT_COUNT:=3}" ;;
*) : "${FAULT_COUNT:=20}" ;;
esac
GUEST_SECONDS=$((600 + FAULT_COUNT * 120)) # a fault of each sort takes 20 to 60 s
: "${FAULTS:=client link appliance qp_client qp_appliance address}"

nvme d0 256M addr=4,mdts=5 logical_block_size=4096,physical_block_size=4096
nvme d1 192M addr=5 logical_block_size=4096,physical_block_size=4096
QEMU_MORE="-netdev user,id=n0,restrict=on -device virtio-net-pci,netdev=n0,addr=0x10"
GUEST_CONF="huge=160
modules='9p 9pnet_virtio virtio_pci virtio_net crc32_generic rdma_rxe ib_uverbs rdma_ucm'
export DRIVES='pci:0000:00:04.0 pci:0000:00:05.0' FAULTS='$FAULTS' FAULT_COUNT=$FAULT_COUNT"
boot rdma.sh
finish

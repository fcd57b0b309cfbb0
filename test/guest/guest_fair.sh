#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# 64 sessions over soft-RoCE on one appliance, driven from one thread, on NVMe controllers in one guest.
# FAIR_SECONDS: for so long.
cd "$(dirname "$0")/../.." && . test/guest/lib.sh

case ${TEST_LENGTH:-short} in
short) echo "skip: 64 sessions over soft-RoCE are in the longer tests"; exit ;;
esac
GUEST_MEMORY=6144 # 20 clients that never reap have pools of 129 MiB each
GUEST_SECONDS=900
nvme d0 256M addr=4,mdts=5 logical_block_size=4096,physical_block_size=4096
nvme d1 192M addr=5 logical_block_size=4096,physical_block_size=4096
QEMU_MORE="-netdev user,id=n0,restrict=on -device virtio-net-pci,netdev=n0,addr=0x10"
GUEST_CONF="huge=160
modules='9p 9pnet_virtio virtio_pci virtio_net crc32_generic rdma_rxe ib_uverbs rdma_ucm'
export DRIVES='pci:0000:00:04.0 pci:0000:00:05.0' FAIR_SECONDS=${FAIR_SECONDS:-30}"
boot fair.sh
finish

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# wekactl drives and doctor: devices that a real kernel moves from one driver to another, and that
# it has again after a restart.
cd "$(dirname "$0")/../.." && . test/guest/lib.sh

case ${TEST_LENGTH:-} in
short) echo "skip: wekactl drives beside a real kernel is in the longer tests"; exit ;;
esac
# A table of partitions with one, from block 64 to the end.
partition() { # FILE
	printf '\000\000\000\000\203\000\000\000\100\000\000\000\000\140\000\000' |
		dd of="$1" bs=1 seek=446 conv=notrunc status=none
	printf '\125\252' | dd of="$1" bs=1 seek=510 conv=notrunc status=none
}

nvme d0 64M addr=4.0                           # a file system on the whole
nvme d1 64M addr=5.0                           # a partition
nvme d2 64M addr=6.0,multifunction=on          # empty; one group with d3
nvme d3 64M addr=6.1                           # a store
nvme d4 64M addr=7.0,multifunction=on          # one group with a device of another kind
nvme d5 64M addr=8.0 logical_block_size=4096,physical_block_size=4096
namespace d6 d5 2 32M
QEMU_MORE="-device virtio-rng-pci,addr=7.1 -device nvme-subsys,id=subsystem"
# Two ways to one namespace: its block device is named after the subsystem.
QEMU_MORE="$QEMU_MORE $(truncate -s 64M "$DIR/d7.img"; blockdev d7 "$DIR/d7.img")
	-device nvme,id=way0,serial=d7,subsys=subsystem,addr=9.0
	-device nvme-ns,bus=way0,drive=d7,nsid=1,shared=on"
mkfs.ext4 -q "$DIR/d0.img" || { echo "not ok a file system can be made"; exit 1; }
partition "$DIR/d1.img"

GUEST_CONF='bind=nvme'
boot drives.sh
cp appliance/host/weka-drives.service "$OUT/"
boot drives_again.sh
finish

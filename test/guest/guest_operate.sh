#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# What an operator does wrong: names that are no drive, drives in use, limits that are too low.  The
# devices are described in in/operate.sh.
cd "$(dirname "$0")/../.." && . test/guest/lib.sh

case ${TEST_LENGTH:-} in
short) echo "skip: an operator's mistakes with real devices are in the longer tests"; exit ;;
esac
nvme d0 128M addr=4
nvme d1 128M addr=5
nvme d2 128M addr=6
# Behind a bridge of conventional PCI: nothing isolates them from each other.
QEMU_NVME="$QEMU_NVME -device pcie-pci-bridge,id=bridge,addr=7"
nvme d3 128M bus=bridge,addr=1
nvme d4 128M bus=bridge,addr=2
boot operate.sh
finish

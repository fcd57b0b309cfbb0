#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# The kernel comes over the network, the root from a disk that has no boot loader.  A file on that disk says
# what to format.
cd "$(dirname "$0")/../.." && . test/image/lib.sh

disk "$IMAGES/weka.raw" 4G
mkdir "$DIR/tftp" && cp "$IMAGES/weka.efi" "$DIR/tftp/"
check "the disk has no boot loader" mdel -i "$(esp)" ::EFI/BOOT/BOOTX64.EFI
check "it has a file that says what to format" setup_file
check "power on" power_on
check "the kernel comes over the network" expect "NBP filename is weka.efi" 120
serve_a_tree weka-.*
check "the same files" still_there
check "power off" power_off
finish

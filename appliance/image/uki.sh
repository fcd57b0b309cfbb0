#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Makes a unified kernel image, one program for UEFI: systemd's loader with a kernel, its command line
# and its initrd in sections.  disk.sh and install.sh call this script.
# usage: uki.sh COMMAND-LINE INITRD OUTPUT
set -eu
efi=/usr/lib/systemd/boot/efi
loader=$efi/linuxx64.efi.stub # the file's name in Debian's package systemd-boot-efi
printf '%s' "$1" >"$OUT/cmdline"
# -p keeps the time stamp that the loader has in its header, so two builds give the same bytes.
objcopy -p --add-section .osrel="$OUT/os-release" --change-section-vma .osrel=0x20000 \
	--add-section .cmdline="$OUT/cmdline" --change-section-vma .cmdline=0x30000 \
	--add-section .linux="$OUT/vmlinuz" --change-section-vma .linux=0x2000000 \
	--add-section .initrd="$2" --change-section-vma .initrd=0x4000000 \
	"$loader" "$3"
rm "$OUT/cmdline"

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# A kernel, its command line and its initrd become one program for UEFI, a unified kernel image: the
# loader of systemd, linuxx64.efi.stub, with them as sections.  disk.sh and install.sh call it.
# usage: uki.sh COMMAND-LINE INITRD OUTPUT
set -eu
printf '%s' "$1" >"$OUT/cmdline"
# -p keeps the time stamp that the loader has in its header, so two builds give the same bytes.
objcopy -p --add-section .osrel="$OUT/os-release" --change-section-vma .osrel=0x20000 \
	--add-section .cmdline="$OUT/cmdline" --change-section-vma .cmdline=0x30000 \
	--add-section .linux="$OUT/vmlinuz" --change-section-vma .linux=0x2000000 \
	--add-section .initrd="$2" --change-section-vma .initrd=0x4000000 \
	/usr/lib/systemd/boot/efi/linuxx64.efi.stub "$3"
rm "$OUT/cmdline"

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Makes $OUT/initrd: init, busybox, dmsetup and blkid of the tree, and the modules that find a root.
# build.sh calls it.
set -eu
# crc32c first: the file systems ask the kernel for it, not for a module.
MODULES="crc32c_generic crc32c-intel sha256-ssse3 virtio_blk virtio_scsi virtio_pci nvme ahci sd_mod megaraid_sas
	mpt3sas usb-storage uas xhci-pci ehci-pci hv_storvsc vmw_pvscsi dm-verity erofs ext4
	vfat nls_cp437 nls_ascii" # and those of the installer's media
. "$OUT/root.env"
r=$OUT/initrd.tree
rm -rf "$r"
mkdir -p "$r/bin" "$r/dev" "$r/proc" "$r/sys" "$r/run" "$r/sysroot" "$r/lib/modules/$release"

cp "$TREE/bin/busybox" "$r/bin/"
for applet in sh mount umount mkdir sleep cat modprobe switch_root reboot grep od tr sed sync \
	zcat dd rm rmdir tee poweroff; do
	ln -s busybox "$r/bin/$applet"
done
# Programs with their libraries.
for program in /sbin/dmsetup /sbin/blkid /sbin/e2fsck; do
	cp "$TREE$program" "$r/bin/"
	chroot "$TREE" ldd "$program" | grep -oE '/[^ ]+ \(0x' | while read -r lib _; do
		mkdir -p "$r${lib%/*}"
		cp -L "$TREE$lib" "$r$lib"
	done
done
tree=$TREE/lib/modules/$release
for m in $MODULES; do
	pattern=$(echo "$m" | sed 's/[-_]/[-_]/g')
	grep "/$pattern\.ko:" "$tree/modules.dep" || { echo "image: Debian's kernel has no module $m" >&2; exit 1; }
done | tr -d : | xargs -n 1 | sort -u | (cd "$tree" && cpio -pdm --quiet "$r/lib/modules/$release")
cp "$tree"/modules.builtin* "$tree/modules.order" "$r/lib/modules/$release/"
depmod -b "$r" "$release"
echo "$MODULES" >"$r/modules"
install -m 755 "$HERE/init" "$r/init"

find "$r" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
(cd "$r" && find . | sort | cpio -o -H newc -R 0:0 --reproducible --quiet) >"$OUT/initrd"
rm -rf "$r"

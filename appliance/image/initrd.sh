#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Makes $OUT/initrd: init, busybox, dmsetup and blkid of the tree, and the modules that find a root; packed,
# because few boots need them, those of network cards.
# build.sh calls it.
set -eu
# These are always loaded.  crc32c first: the file systems ask the kernel for it, not for a module.
MODULES="crc32c_generic crc32c-intel sha256-ssse3 dm-verity erofs ext4
	vfat nls_cp437 nls_ascii
	sd_mod usb-storage uas" # for the installer's media, which may come late
# The initrd loads only those of the next two lists that have a device.  These are controllers of
# disks; some stand behind Intel's VMD, and some exist in virtual machines only.
DISK_MODULES="nvme vmd ahci ata_piix megaraid_sas mpt3sas mpi3mr smartpqi hpsa aacraid xhci-pci
	ehci-pci virtio_pci virtio_blk virtio_scsi vmw_pvscsi pci-hyperv hv_storvsc xen-blkfront"
# Network cards of servers and virtual machines, and loop for a root in memory.
NET_MODULES="loop virtio_net vmxnet3 hv_netvsc xen-netfront ena gve mana e1000e igb igc ixgbe ixgbevf i40e iavf
	ice bnx2x bnxt_en tg3 mlx4_en mlx5_core qede cxgb4 sfc be2net enic nfp atlantic r8169"
. "$OUT/root.env"
r=$OUT/initrd.tree
rm -rf "$r"
mkdir -p "$r/bin" "$r/dev" "$r/proc" "$r/sys" "$r/run" "$r/sysroot" "$r/lib/modules/$release"

cp "$TREE/bin/busybox" "$r/bin/"
for applet in sh mount umount mkdir sleep cat modprobe switch_root reboot grep od tr sed sync \
	zcat dd rm rmdir tee poweroff losetup tar gunzip wget udhcpc ip sort; do
	ln -s busybox "$r/bin/$applet"
done
# Programs with their libraries.
for program in /sbin/dmsetup /sbin/blkid /sbin/e2fsck /sbin/blkdiscard; do
	cp "$TREE$program" "$r/bin/"
	chroot "$TREE" ldd "$program" | grep -oE '/[^ ]+ \(0x' | while read -r lib _; do
		mkdir -p "$r${lib%/*}"
		cp -L "$TREE$lib" "$r$lib"
	done
done
tree=$TREE/lib/modules/$release
with_needs() { # MODULE...: files
	for m in "$@"; do
		pattern=$(echo "$m" | sed 's/[-_]/[-_]/g')
		grep "/$pattern\.ko:" "$tree/modules.dep" || { echo "image: the root has no module $m" >&2; exit 1; }
	done >"$OUT/modules.needs"
	tr -d : <"$OUT/modules.needs" | xargs -n 1 | sort -u
	rm "$OUT/modules.needs"
}
# shellcheck disable=SC2086 # words
with_needs $MODULES $DISK_MODULES >"$OUT/modules.disk"
# shellcheck disable=SC2086
with_needs $NET_MODULES >"$OUT/modules.all"
comm -13 "$OUT/modules.disk" "$OUT/modules.all" >"$OUT/modules.net"
cat "$OUT/modules.disk" "$OUT/modules.net" | (cd "$tree" && cpio -pdm --quiet "$r/lib/modules/$release")
cp "$tree"/modules.builtin* "$tree/modules.order" "$r/lib/modules/$release/"
depmod -b "$r" "$release"
(cd "$r" && sed "s,^,lib/modules/$release/," "$OUT/modules.net" | xargs touch -d "@$SOURCE_DATE_EPOCH" &&
	sed "s,^,lib/modules/$release/," "$OUT/modules.net" |
	tar -c --format=ustar --owner=0 --group=0 --numeric-owner --mode=644 -T - --remove-files) | gzip -n >"$r/net.tar.gz"
rm "$OUT/modules.disk" "$OUT/modules.all" "$OUT/modules.net"
echo "$MODULES" >"$r/modules"
install -m 755 "$HERE/init" "$HERE/network" "$HERE/lease" "$r/"

find "$r" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
(cd "$r" && find . | sort | cpio -o -H newc -R 0:0 --reproducible --quiet) >"$OUT/initrd"
rm -rf "$r"

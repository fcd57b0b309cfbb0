#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Makes the installer of $OUT/weka.raw: weka-install.efi, for booting over the network, and
# weka-install.iso, for a CD, a BMC's virtual medium or a stick.  build.sh calls it.
#
#   weka-install.efi   kernel, the image's initrd, and behind it one with install and weka.raw, packed
#   weka-install.iso   a boot partition with this program, and nothing else
set -eu
CMDLINE="quiet loglevel=4 no_timer_check console=ttyS0,115200 console=tty0"

more=$OUT/install.tree
rm -rf "$more"
mkdir "$more"
install -m 755 "$HERE/install" "$more/install"
echo "weka-appliance $VERSION" >"$more/weka.name"
echo $(($(stat -c %s "$OUT/weka.raw") / 512)) >"$more/weka.sectors"
gzip -n -1 <"$OUT/weka.raw" >"$more/weka.raw.gz" # -6 makes it 8 % smaller, in twice the time
find "$more" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
{ cat "$OUT/initrd" && (cd "$more" && find . | sort | cpio -o -H newc -R 0:0 --reproducible --quiet); } >"$OUT/install.initrd"
rm -rf "$more"

efi=$OUT/weka-install.efi
"$HERE/uki.sh" "$CMDLINE" "$OUT/install.initrd" "$efi"

esp=$OUT/install.esp
touch -d "@$SOURCE_DATE_EPOCH" "$efi"
rm -f "$esp"
truncate -s $(($(stat -c %s "$efi") / 1048576 + 8))M "$esp"
mkfs.vfat -F 32 -n WEKA-BOOT --invariant "$esp" >/dev/null
mmd -i "$esp" ::EFI ::EFI/BOOT
mcopy -m -i "$esp" "$efi" ::EFI/BOOT/BOOTX64.EFI

iso=$OUT/weka-install.iso
mkdir "$OUT/iso.tree"
echo "weka-appliance $VERSION: boot this medium with UEFI." >"$OUT/iso.tree/README"
touch -d "@$SOURCE_DATE_EPOCH" "$OUT/iso.tree/README" "$OUT/iso.tree"
# Dates and GUIDs follow from the commit's time.
xorriso -report_about FAILURE -as mkisofs -quiet -volid WEKA-INSTALL -o "$iso" \
	--set_all_file_dates "$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S00)" \
	--modification-date="$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S00)" --gpt_disk_guid modification-date \
	-append_partition 2 0xef "$esp" -appended_part_as_gpt -partition_offset 16 \
	-e --interval:appended_partition_2:all:: -no-emul-boot "$OUT/iso.tree"
rm -rf "$esp" "$OUT/install.initrd" "$OUT/iso.tree"

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Makes the installer of $OUT/weka.raw: weka-install.efi, for booting over the network, and
# weka-install.iso, for a CD, a BMC's virtual medium or a stick.  build.sh calls it.
#
#   weka-install.efi   kernel, the image's initrd, and behind it one with install and the parts of
#                      weka.raw that are not empty, packed
#   weka-install.iso   a boot partition with this program, and nothing else
set -eu
UNIT=4194304
CMDLINE="quiet loglevel=4 no_timer_check console=ttyS0,115200 console=tty0"

# Most of the disk is empty.  weka.parts has a line for each part that is not, in units of 4 MiB: where it
# begins, and its length; weka.raw.gz has these parts, one behind the other.
parts() {
	units=$((($(stat -c %s "$OUT/weka.raw") + UNIT - 1) / UNIT))
	n=0 from=
	while [ $n -le $units ]; do
		if [ $n -lt $units ] && ! cmp -s -n $UNIT -i $((n * UNIT)):0 "$OUT/weka.raw" "$OUT/empty"; then
			from=${from:-$n}
		elif [ -n "$from" ]; then
			echo "$from $((n - from))"
			from=
		fi
		n=$((n + 1))
	done
}

more=$OUT/install.tree
rm -rf "$more"
mkdir "$more"
install -m 755 "$HERE/install" "$more/install"
echo "weka-appliance $VERSION" >"$more/weka.name"
echo $(($(stat -c %s "$OUT/weka.raw") / 512)) >"$more/weka.sectors"
truncate -s $UNIT "$OUT/empty"
parts >"$more/weka.parts"
while read -r from count; do
	dd if="$OUT/weka.raw" bs=$UNIT skip="$from" count="$count" status=none
done <"$more/weka.parts" | gzip -n -1 >"$more/weka.raw.gz" # -6 makes it 8 % smaller, in twice the time
rm "$OUT/empty"
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

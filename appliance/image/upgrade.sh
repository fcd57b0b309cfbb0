#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Makes the unified kernel image $OUT/weka.efi, and what an appliance takes as an upgrade: that and the
# root in one file, weka_VERSION.upgrade.  build.sh calls it.
set -eu
. "$OUT/root.env"
# no_timer_check: in a machine that a busy host emulates the check fails, and the kernel would stop.
CMDLINE="weka.hash=$hash weka.salt=$salt weka.blocks=$blocks weka.version=$VERSION ro quiet systemd.gpt_auto=no loglevel=4 panic=10 \
intel_iommu=on iommu.passthrough=0 no_timer_check console=tty0 console=ttyS0,115200"

die() { echo "image: $*" >&2; exit 1; }
[ "$(stat -c %s "$OUT/root.erofs")" -le $((ROOT << 20)) ] || die "the root does not fit $ROOT MiB"
[ "$(stat -c %s "$OUT/root.verity")" -le $((HASHES << 20)) ] || die "its hashes do not fit $HASHES MiB"

"$HERE/uki.sh" "$CMDLINE" "$OUT/initrd" "$OUT/weka.efi"

{ echo "version=$VERSION"; cat "$OUT/root.env"; } >"$OUT/about"
rm -f "$OUT"/*.upgrade
tar -C "$OUT" -cf "$OUT/weka_$VERSION.upgrade" --format=ustar --owner=0 --group=0 --numeric-owner --mode=644 \
	--mtime="@$SOURCE_DATE_EPOCH" about root.erofs root.verity weka.efi

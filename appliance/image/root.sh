#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# A tree of packages becomes the read-only root of the appliance: root.erofs, its hashes root.verity,
# and root.env, which says how the kernel opens both.  build.sh calls it.
set -eu
cd "$TREE"

# ---- the kernel goes to the UKI, and with it the modules that servers need -------------------------
release=$(ls lib/modules)
mv "boot/vmlinuz-$release" "$OUT/vmlinuz"
mv "lib/modules/$release" "$OUT/modules.$$"
trap 'rm -rf "$OUT/modules.$$"' EXIT
depmod -b "$TREE" "$release" 2>/dev/null || true
to=lib/modules/$release
mkdir -p "$to"
cp "$OUT/modules.$$"/modules.builtin* "$OUT/modules.$$/modules.order" "$to/"
sed 's/#.*//' "$HERE/modules.txt" | while read -r part; do
	[ -z "$part" ] || (cd "$OUT/modules.$$" && find "kernel/$part" -name '*.ko')
done >"$OUT/modules.list"
# With all that they need, by the package's own table.
awk -F '[: ]+' 'NR == FNR { wanted[$1] = 1; next } $1 in wanted { for (i = 1; i <= NF; i++) if ($i) print $i }' \
	"$OUT/modules.list" "$OUT/modules.$$/modules.dep" | sort -u >"$OUT/modules.all"
(cd "$OUT/modules.$$" && cpio -pdm --quiet "$TREE/$to" <"$OUT/modules.all")
depmod -b "$TREE" "$release"
rm -rf "$OUT/modules.$$" "$OUT/modules.list" "$OUT/modules.all" boot/* vmlinuz* initrd.img*

# ---- ours ------------------------------------------------------------------------------------------
cp -r --preserve=mode "$HERE/root/." .
chmod 755 usr/lib/weka-image/*
mkdir -p usr/share/weka-image efi
cp var/lib/dpkg/status usr/share/weka-image/packages
cat >usr/lib/os-release <<END
NAME="weka-appliance"
PRETTY_NAME="weka-appliance $VERSION"
ID=weka
ID_LIKE=debian
IMAGE_ID=weka
IMAGE_VERSION=$VERSION
VERSION_ID=$VERSION
END
cp usr/lib/os-release "$OUT/os-release"
# Files that change on a machine lie on the state partition, which is /var.
: >etc/machine-id
rm -rf var/* etc/weka run/* tmp/* etc/hostname etc/resolv.conf etc/weka-appliance.conf
ln -s /var/lib/weka-image/weka-appliance.conf etc/weka-appliance.conf
ln -s /var/lib/weka-image/etc etc/weka
echo 'tmpfs /tmp tmpfs mode=1777,nosuid,nodev,size=64M 0 0' >etc/fstab

[ -z "${EXTRA:-}" ] || cp -r --preserve=mode "$EXTRA/." .

# ---- what runs ------------------------------------------------------------------------------------
unit() { systemctl --root="$TREE" -q "$@"; }
unit enable weka-appliance.service weka-setup.service weka-grow.service weka-good.service \
	weka-console@tty1.service weka-console@ttyS0.service systemd-networkd.service
# Nobody logs in, nothing is asked for, and nothing that needs a root that can be written.
unit mask getty.target getty@.service serial-getty@.service console-getty.service autovt@.service \
	emergency.service rescue.service systemd-firstboot.service systemd-hwdb-update.service \
	systemd-journal-catalog-update.service systemd-update-done.service ldconfig.service \
	systemd-machine-id-commit.service systemd-pcrphase.service systemd-networkd-wait-online.service \
	dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service systemd-repart.service \
	systemd-remount-fs.service proc-sys-fs-binfmt_misc.automount
sed -i 's/^root:[^:]*:/root:!*:/' etc/shadow
unit set-default multi-user.target

# ---- without what only a changing system needs --------------------------------------------------------
find usr/share/doc -type f ! -name copyright -delete
rm -rf usr/share/man usr/share/locale usr/share/info usr/share/lintian usr/share/bug usr/share/bash-completion \
	usr/share/zsh usr/share/polkit-1 etc/apt etc/*- etc/.pwd.lock etc/kernel etc/initramfs-tools \
	usr/lib/kernel usr/lib/udev/hwdb.d
find . -name '*.pyc' -delete
# Names of products, for people; and generators of units: only that of etc/fstab has work here.
rm -f usr/lib/udev/hwdb.bin
find usr/lib/systemd/system-generators -type f ! -name systemd-fstab-generator -delete

# ---- file system and hashes -------------------------------------------------------------------------
find . -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
rm -f "$OUT/root.erofs" "$OUT/root.verity"
uuid=$(echo "weka $VERSION" | sha256sum | sed 's/^\(........\)\(....\)\(....\)\(....\)\(............\).*/\1-\2-\3-\4-\5/')
mkfs.erofs --quiet -zlz4hc,9 -T"$SOURCE_DATE_EPOCH" -U"$uuid" "$OUT/root.erofs" . >/dev/null
# Whole blocks of verity's.
truncate -s %4096 "$OUT/root.erofs"
salt=$(echo "$uuid" | sha256sum | cut -c 1-64)
hash=$(veritysetup format --salt="$salt" --uuid="$uuid" "$OUT/root.erofs" "$OUT/root.verity" | sed -n 's/^Root hash:[[:space:]]*//p')
cat >"$OUT/root.env" <<END
hash=$hash
salt=$salt
blocks=$(($(stat -c %s "$OUT/root.erofs") / 4096))
release=$release
END

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Makes the disk image of the appliance: $BUILD/image/weka.raw.  usage: build.sh, as root.
#
#   debian.txt --(mmdebstrap)--> debian.tar, with our packages --(root.sh)--> root.erofs + root.verity
#   init, parts of the tree ---------------------(initrd.sh)----> initrd
#   kernel, initrd, root hash ----------------------------------> the unified kernel image, UKI
#   UKI, boot loader, roots ----------------------(disk.sh)-----> weka.raw
#
# an installer with that disk in it (install.sh): weka-install.efi, weka-install.iso; and what an
# appliance takes as an upgrade: weka_VERSION.upgrade.
#
# For tests: with IMAGE=DIR only the upgrade is made, in DIR, from the packages that $BUILD/image has;
# the content of the directory EXTRA goes into its root.
#
# Times are those of the commit, and every identifier follows from the content or is fixed.  So two builds
# of one commit from the same packages of Debian give the same bytes (test/image/image_same.sh).
set -eu
cd "$(dirname "$0")/../.."
: "${BUILD:=build}" "${VERSION:?}"
HERE=$PWD/appliance/image
CACHE=$(realpath -m "$BUILD/image")
OUT=$(realpath -m "${IMAGE:-$CACHE}")
TREE=$OUT/tree
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGES.md)}"
export SOURCE_DATE_EPOCH OUT TREE HERE VERSION LC_ALL=C TZ=UTC
# Partitions in MiB.  Roots leave room for later versions.
export ESP=320 ROOT=768 HASHES=8 STATE=64
umask 022

[ "$(id -u)" = 0 ] || { echo "image: this needs root: the image has files of several users" >&2; exit 1; }
[ "$(uname -m)" = x86_64 ] || { echo "image: made for x86-64, on x86-64 only" >&2; exit 1; }
export PATH="$PATH:/usr/sbin:/sbin"

words() { sed 's/#.*//' "$1" | xargs; }

# ---- Debian's packages and ours ------------------------------------------------------------------

ours() { for name in weka-appliance wekactl; do echo "$BUILD/deb/${name}"_[0-9]*.deb; done; }
# The names of the packages that ours depend on: the first of alternatives.
depends() {
	for deb in $(ours); do dpkg-deb -f "$deb" Depends; done | tr ',' '\n' | sed 's/[(|].*//' | grep -v wekactl | sort -u | xargs
}

# Debian's packages, unpacked and configured: $BUILD/image/debian.tar.  Made anew each day, since they
# may have changed; $BUILD/image/archives keeps the files, so only those that changed are downloaded.
# INITRD=No: Debian's own initrd, which the image does not use, is not made.
debian() {
	include="$(words "$HERE/debian.txt") $(depends)"
	stamp="$(date +%F) $include $(cksum <"$HERE/build.sh")"
	[ "$stamp" != "$(cat "$CACHE/stamp" 2>/dev/null)" ] || return 0
	echo "image: Debian's packages"
	mkdir -p "$CACHE/archives"
	export ARCHIVES="$CACHE/archives"
	# shellcheck disable=SC2016 # mmdebstrap's $1
	INITRD=No mmdebstrap --quiet --variant=essential --include="$(echo "$include" | tr ' ' ,)" \
		--skip=essential/unlink \
		--setup-hook='mkdir -p "$1/var/cache/apt/archives" && cp -r "$ARCHIVES/." "$1/var/cache/apt/archives/"' \
		--customize-hook='APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" apt-get -qq autoclean' \
		--customize-hook='rm -f "$ARCHIVES"/*.deb && cp "$1"/var/cache/apt/archives/*.deb "$ARCHIVES/"' \
		--aptopt='APT::Install-Recommends "false"' \
		--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
		bookworm "$CACHE/debian.tar" # from mmdebstrap's own mirrors, with updates and security
	echo "$stamp" >"$CACHE/stamp"
}

mkdir -p "$OUT" "$CACHE"
[ -n "${IMAGE:-}" ] || debian
rm -rf "$TREE"
mkdir "$TREE"
tar -C "$TREE" -xf "$CACHE/debian.tar"
# shellcheck disable=SC2046 # words
cp $(ours) "$TREE/tmp/"
chroot "$TREE" sh -c 'dpkg --path-exclude="/usr/share/man/*" -i /tmp/*.deb >/tmp/log 2>&1 || { cat /tmp/log; exit 1; }'
"$HERE/root.sh"
"$HERE/initrd.sh"
"$HERE/upgrade.sh"
rm -rf "$TREE"
[ -z "${IMAGE:-}" ] || exit 0
"$HERE/disk.sh"
"$HERE/install.sh"
echo "image: $OUT/weka.raw, version $VERSION"

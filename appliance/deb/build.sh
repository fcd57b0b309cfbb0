#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Makes the Debian packages from a tree that is built: $BUILD/deb/*.deb and a .changes file.
# usage: build.sh.  Two builds of one commit give the same bytes.
#
#   appliance/deb/*  --+
#   a changelog -------+--> $BUILD/deb/source/debian --(dpkg-buildpackage)--> $BUILD/deb/*.deb
#   `make install` ----+
set -eu
cd "$(dirname "$0")/../.."
: "${BUILD:=build}" "${DEB_VERSION:?}"
# `make install` in debian/rules is not a part of the make that called us.
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES DESTDIR PREFIX LIBDIR
TREE=$PWD
export TREE BUILD

# Every time in the packages is that of the last commit; without git, of the last change's text.
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGES.md)}"
export SOURCE_DATE_EPOCH
umask 022

out=$BUILD/deb source=$BUILD/deb/source
mkdir -p "$out"
rm -rf "$source" "$out"/*.deb "$out"/*.changes "$out"/*.buildinfo
mkdir -p "$source"
for entry in *; do # the sources, for documents and examples
	[ "$entry" = "${BUILD%%/*}" ] || ln -s "$TREE/$entry" "$source/$entry"
done
for entry in *.md; do cp --remove-destination "$entry" "$source/$entry"; done
cp -r appliance/deb/debian "$source/debian"
cp appliance/host/weka.sysusers "$source/debian/weka-appliance.sysusers"
sed -n '/^Redistribution/,$p' LICENSE | sed 's/^$/./; s/^/ /' >"$source/debian/license"
sed -i -e "/^@LICENSE@\$/{r $source/debian/license
d}" "$source/debian/copyright"
{
	printf 'weka-appliance (%s) bookworm; urgency=medium\n\n' "$DEB_VERSION"
	printf '  * /usr/share/doc/weka-appliance/changelog.gz says what changed.\n\n'
	printf ' -- %s  %s\n' "$(sed -n 's/^Maintainer: //p' "$source/debian/control")" \
		"$(LC_ALL=C date -Ru -d "@$SOURCE_DATE_EPOCH")"
} >"$source/debian/changelog"

if ! (cd "$source" && dpkg-buildpackage -b -us -uc -nc -rfakeroot) >"$out/log" 2>&1; then
	tail -n 30 "$out/log"
	exit 1
fi
ls "$out"/*.deb

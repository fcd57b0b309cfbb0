#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Installs the Debian packages of a list that are missing.  usage: deps.sh packages.txt
set -u

wanted=$(sed 's/#.*//' "$1")

if ! command -v dpkg-query >/dev/null; then
	# Not Debian: whoever has other packages may well have all that is needed.
	echo "deps: no dpkg here; what is needed, by Debian's names:" $wanted
	exit 0
fi

# shellcheck disable=SC2016,SC2086 # the format is dpkg's; the list is to be split
have=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' $wanted 2>/dev/null |
	awk '$2 == "installed" { print $1 }')
missing=
for p in $wanted; do
	printf '%s\n' "$have" | grep -qx "$p" || missing="$missing $p"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
	root=
elif command -v sudo >/dev/null; then
	root=sudo
else
	echo "deps: missing:$missing" >&2
	echo "deps: this needs root, and there is no sudo.  As root, type:" >&2
	echo "    apt-get install --no-install-recommends$missing" >&2
	exit 1
fi

echo "deps: installing$missing"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086
install() { $root apt-get -o DPkg::Lock::Timeout=300 install -y -q --no-install-recommends $missing; }
# The lists may be missing or old; asking for them costs time, so only when they are.  A mirror may be
# away for a moment, and another apt-get may hold the lists.
tries=0
until install >/dev/null 2>&1 || { $root apt-get update -q && install; }; do
	tries=$((tries + 1))
	[ $tries -lt 4 ] || {
		echo "deps: apt-get could not install$missing: see above" >&2
		exit 1
	}
	sleep 15
done

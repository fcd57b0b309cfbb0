#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Copies into a tree the shared libraries that its programs load.  usage: libs.sh TREE
set -eu
tree=$1
find "$tree" -type f -perm -u+x -exec ldd {} + 2>/dev/null |
	sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p; s/^[[:space:]]*\(\/lib64[^ ]*\) .*/\1/p' | sort -u |
	while read -r lib; do
		case $lib in
		/lib64/*) to=$tree/lib64 ;;
		*) to=$tree/lib/x86_64-linux-gnu ;;
		esac
		mkdir -p "$to"
		[ -e "$to/${lib##*/}" ] || cp -L "$lib" "$to/"
	done

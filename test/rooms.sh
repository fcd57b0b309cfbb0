#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# A room calls only what its .mk says that it uses, and of another folder only what has no __ in its
# name: nm on its archive.  The linker would not notice a call that goes up to a file which something
# else has linked already.
set -u
cd "$(dirname "$0")/.." || exit 2
: "${MAKE:=make}" "${BUILD:=build}"
libs=$BUILD/${VARIANT:-release} work=$BUILD/out/rooms.d
rm -rf "$work" && mkdir -p "$work"

# One line a global symbol: "ROOM has NAME" or "ROOM calls NAME".
symbols() { # ROOM ARCHIVE
	nm -g "$2" 2>/dev/null | awk -v room="$1" '
		NF == 2 && $1 == "U" { print room, "calls", $2 }
		NF == 3 && $2 ~ /[TDBRVW]/ { print room, "has", $3 }' | sort -u
}

# Prints "ROOM calls NAME of OTHER" for each call that no _uses line allows.
judge() { # USES SYMBOLS
	awk '
	FNR == NR { at = index($0, "="); may[substr($0, 1, at - 1)] = " " substr($0, at + 1) " "; next }
	function top(room) { sub(/\/.*/, "", room); return room }
	function allowed(from, of, name) {
		if (top(from) != top(of) && name !~ /__/) # public: whoever uses the folder may
			of = top(of)
		return index(may[from], " " of " ") > 0
	}
	$2 == "has" { home[$3] = $1; next }
	{ calls[++n] = $0 }
	END {
		for (i = 1; i <= n; i++) {
			split(calls[i], c, " ")
			of = home[c[3]]
			if (of != "" && of != c[1] && !allowed(c[1], of, c[3]))
				print c[1] " calls " c[3] "() of " of
		}
	}' "$1" "$2"
}

printf 'low=\nhigh=low\n' >"$work/uses"
printf 'low has down\nhigh has up\nhigh calls down\nlow calls up\n' >"$work/symbols"
if [ "$(judge "$work/uses" "$work/symbols")" = "low calls up() of high" ]; then
	echo "ok finds a call that goes up"
else
	echo "not ok finds a call that goes up"
fi

MAKEFLAGS='' "$MAKE" -s --no-print-directory print-uses >"$work/uses"
: >"$work/symbols"
rooms=0
for room in $(cut -d= -f1 "$work/uses"); do
	archive=$libs/lib$(echo "$room" | tr / -).a
	[ -d "$room" ] && [ -n "$(find "$room" -maxdepth 1 -name '*.c')" ] && [ -e "$archive" ] || continue
	symbols "$room" "$archive" >>"$work/symbols"
	rooms=$((rooms + 1))
done
judge "$work/uses" "$work/symbols" >"$work/found"
if [ $rooms -gt 8 ] && [ ! -s "$work/found" ]; then
	echo "ok no room calls one that it does not use ($rooms rooms)"
else
	echo "not ok no room calls one that it does not use ($rooms rooms)"
	cat "$work/found"
	exit 1
fi

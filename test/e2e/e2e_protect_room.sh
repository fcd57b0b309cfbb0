#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# A protection that needs more room than the store has is refused: it says how much is missing, and
# changes nothing.  When that much is removed it is accepted, and all files can be replaced.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

CACHE=16M
: "${APP_CORES:=2}"
for d in 0 1 2 3 4; do eval "D$d=file:$DIR/d$d?size=32M"; done
write_conf "$D0" "$D1" "$D2" "$D3" "$D4"
mkdir "$DIR/src"
for i in 1 2 3 4 5 6 7 8; do head -c 1000000 /dev/urandom >"$DIR/src/$i"; done

store() { ctl --json status | /usr/bin/python3 -c 'import json, sys; print(json.load(sys.stdin)["store"][sys.argv[1]])' "$1"; }
fill() { # as many folders as there is room for; COUNT of them
	COUNT=0
	while ctl -q import "$DIR/src" "/f$COUNT" 2>"$DIR/full"; do COUNT=$((COUNT + 1)); done
	ctl rm -r "/f$COUNT"
	grep -q 'o space left' "$DIR/full"
}
# Removes folders until `protect $1` is accepted; each refusal says how much is missing, or that too
# little is free to begin.  GONE of them.
until_accepted() {
	GONE=0 n=0
	until ctl protect "$1" >"$DIR/said" 2>&1; do
		n=$((n + 1))
		[ $n -lt 300 ] && [ $GONE -lt $COUNT ] || { cat "$DIR/said"; return 1; }
		if grep -q 'too little is free to begin: try again' "$DIR/said"; then
			sleep 0.1
			continue
		fi
		grep -q 'room for [0-9.]* [kMG]B is missing: .*nothing was changed' "$DIR/said" || { cat "$DIR/said"; return 1; }
		[ "$(store protect_missing_bytes)" -gt 0 ] || return 1
		ctl rm -r "/f$GONE" && GONE=$((GONE + 1))
	done
	[ "$(store protect_missing_bytes)" = 0 ] && [ $GONE -gt 0 ]
}
replaced() {
	i=$GONE
	while [ $i -lt $COUNT ]; do
		ctl rm -r "/f$i" && ctl -q import "$DIR/src" "/f$i" || return 1
		i=$((i + 1))
	done
}
all_there() {
	i=$GONE
	while [ $i -lt $COUNT ]; do
		rm -rf "$DIR/out"
		ctl -q export "/f$i" "$DIR/out" && same_trees "$DIR/src" "$DIR/out" || return 1
		i=$((i + 1))
	done
}

check "format" "$BIN/wekactl" -q format --protect 4+1 "$D0" "$D1" "$D2" "$D3" "$D4"
check "start" start
check "it is filled" fill
before=$(store total_bytes)
refuses "narrower folds would not hold it" "in such folds, do not fit" "$BIN/wekactl" -c "$SHM" -k "$DIR/key" protect 2+1
is "and nothing was changed" "4 $before" "$(store fold) $(store total_bytes)"
check "they would when the rest is removed" until_accepted 2+1
is "there are as many as was asked for" 2 "$(store fold)"
check "all is replaced" replaced
check "all is there" all_there
check "stop" stop

check "format without copies" "$BIN/wekactl" -q --force format --protect none "$D0" "$D1" "$D2" "$D3" "$D4"
check "start" start
check "it is filled" fill
refuses "two copies do not fit" "two copies of what is there" "$BIN/wekactl" -c "$SHM" -k "$DIR/key" protect mirror
check "they do when the rest is removed" until_accepted mirror
check "all is there" all_there
check "stop" stop
check "the store is whole" "$BIN/wekactl" -f "$CONF" check
finish

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# `deallocate`: a file that is a drive gives back what the store does not need any more, if it is told to
# (all), and not otherwise (own: it is thin); what is in the store is whole either way.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

MIB=$((1 << 20))
D0=file:$DIR/d0?size=128M
held() { echo $(($(stat -c %b "$DIR/d0") * 512)); }
told() { ctl status --json | grep -o '"deallocated_bytes":[0-9]*' | cut -d: -f2; }
keys() { # a configuration with the line $1
	write_conf "$D0"
	echo "$1" >>"$CONF"
}
more() { [ "$1" -gt "$2" ]; }
# Files of 24 MiB come and go, more than there is room for.
churn() {
	for i in 1 2 3 4 5 6 7 8; do
		ctl put "$DIR/big" "/big$i" && ctl rm "/big$i" || return 1
	done
}
# ... until the drive holds 24 MiB less than its size: they are written where others were, and told of one by one.
shrinks() {
	for round in $(seq 20); do
		for i in 1 2 3 4 5 6 7 8; do
			ctl put "$DIR/big" "/big$i" && ctl rm "/big$i" || return 1
			for wait in 1 2 3 4 5; do
				more $((104 * MIB)) "$(held)" && return 0
				sleep 0.1
			done
		done
	done
	return 1
}

head -c $((24 * MIB)) /dev/urandom >"$DIR/big"
head -c $MIB /dev/urandom >"$DIR/kept"
keys "deallocate = all"
"$BIN/wekactl" format "$D0" >/dev/null || exit 1
check "its space is allocated at format" more "$(held)" $((128 * MIB - 1))
check "the appliance starts" start
check "a file that stays" ctl put "$DIR/kept" /kept
check "of files that come and go it gives the space back" shrinks
all_told() { # the count follows what the drive has done
	n=0
	until more "$(told)" $((24 * MIB - 1)); do
		n=$((n + 1))
		[ $n -lt 600 ] || return 1
		sleep 0.1
	done
}
check "as it was told" all_told
get() { ctl cat "$1" >"$DIR/again"; }
check "what stays is there" get /kept
check "to the byte" cmp "$DIR/kept" "$DIR/again"
is "no command failed" 0 "$(ctl status --json | grep -o '"deallocate_failures":[0-9]*' | cut -d: -f2)"
check "the appliance stops" stop
check "the store is whole" "$BIN/wekactl" check "$D0"
BEFORE=$(held)
keys ""
check "as it is by itself: it starts" start
check "files come and go" churn
is "a drive that others may have the space of is told nothing" 0 "$(told)"
check "and holds no less than before" more "$(held)" $((BEFORE - 1))
check "the appliance stops" stop
check "the store is whole" "$BIN/wekactl" check "$D0"
finish

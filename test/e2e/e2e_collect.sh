#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# `weka-bench collect`: files, and whole directories, come and go in a full appliance; what came of it
# is checked by the benchmark itself: each file in the end, and that the parts of what was written
# add up.  How much that was is a matter of larger drives.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=1}"

D0=file:$DIR/d0?size=192M
write_conf "$D0"
"$BIN/wekactl" format "$D0" >/dev/null || exit 1
check "the appliance starts" start

BENCH="$BIN/weka-bench collect --json --files 16 --depth 4 --seconds 0.1 --rate 500 --cores=-1,-1"
over() { $BENCH --connect "$1" --key "$DIR/key" --fill 75 --times "$2" >"$DIR/out"; }
own() { $BENCH --drive mem:128M --fill 40 --times 0.3 >"$DIR/out"; }
more_than_0() { grep "\"kind\":\"$1\"" "$DIR/out" | grep -c "\"$2\":[0-9.]*[1-9]"; }
check "files and directories that come and go, over shm" over "$SHM" 0.5
is "two rows" 2 "$(grep -c '"workload":"collect"' "$DIR/out")"
for part in data pages log moved zones_collected reads_during; do
	is "files, 75 % full: $part is counted" 1 "$(more_than_0 files "$part")"
done
says_with() { grep '"kind":"files"' "$DIR/out" | grep -o "\"$1\":[^,}]*"; }
for part in reads_alone reads_before p50_during_us p99_before_us p99_ratio; do
	is "reads: $part" 1 "$(more_than_0 files "$part")"
done
is "readers are what was asked for" '"readers_rate":500' "$(says_with readers_rate)"
is "and so are writers" '"writers_depth":4' "$(says_with writers_depth)"
is "nothing of them stays" "" "$(ctl ls /)"
check "and over tcp" over "$TCP" 0.1
says() { "$@" 2>&1 >/dev/null | grep -q "$TEXT"; }
TEXT='the drive is too small'
check "a fill that is too small for it is said" says $BENCH --connect "$SHM" --key "$DIR/key" --fill 1
check "the appliance stops" stop
check "the store is whole" "$BIN/wekactl" check "$D0"
check "with an appliance of its own" own
is "which is another for each row" 2 "$(grep -c '"payload_bytes"' "$DIR/out")"
TEXT='not a number from 1 to 99'
check "a fill that is none is said" says $BENCH --fill 100
finish

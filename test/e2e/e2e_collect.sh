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
# Its directory has the configuration with this drive, which no other script uses.
own_dir() { grep -ls "mem:131M" /dev/shm/weka-bench.*/conf "${TMPDIR:-/tmp}"/weka-bench.*/conf | head -n 1; }
its_daemon() { pgrep -f "weka-appliance.*$(dirname "$CONF_OF")"; }
waits_for() { for _ in $(seq 300); do "$@" && return; sleep 0.1; done; return 1; }
$BENCH --drive mem:131M --fill 40 --times 30 >/dev/null 2>&1 & own=$!
there() { CONF_OF=$(own_dir) && [ -n "$CONF_OF" ] && its_daemon >/dev/null; }
gone() { ! its_daemon >/dev/null; }
check "one that runs" waits_for there
kill -9 $own && wait $own 2>/dev/null
check "is killed: its appliance ends, too" waits_for gone
rm -rf "$(dirname "$CONF_OF")"
own_file() { $BENCH --drive "file:$DIR/own?size=128M" --fill 40 --times 0.3 >"$DIR/out"; }
check "on a file of its own" own_file
is "a drive's file goes with the run" "" "$(ls "$DIR/own" 2>/dev/null)"
check "with a drive of its own" $BENCH --drive mem:131M --fill 40 --times 0.1
is "and nothing of it stays" "" "$(own_dir)"
TEXT='not a number from 1 to 99'
check "a fill that is none is said" says $BENCH --fill 100
finish

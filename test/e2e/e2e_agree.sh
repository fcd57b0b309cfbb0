#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Each kind of damage that a store of one copy can meet: a drive that is cut to nothing while it serves,
# a part of a drive that is zeroed, headers of zones that are gone, a drive that is missing, and one
# whose server is dead.  Each time the log, the status and `wekactl damaged` say what a comparison of
# every file finds, before and after the scrub has been everywhere (it does not run without a drive).
# The short one does not wait for the scrub, whose rounds begin a minute apart, and has no dead server.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=2}"
CACHE=16M
SERVER=$(realpath "$BUILD/release/test/tools/vfu_server")
SERVERS=
for d in 0 1 2 3; do eval "D$d=file:$DIR/d$d?size=64M"; done
trap 'for s in $SERVERS; do kill -9 $s 2>/dev/null; done; cleanup' EXIT
make_tree "$DIR/src" 100

health() { # N: of a drive, awaited
	n=0
	until ctl --json status | grep -q "\"number\":$1,[^}]*\"health\":\"$2\""; do
		n=$((n + 1))
		[ $n -lt 300 ] || return 1
		sleep 0.1
	done
}
# agrees NAME: exports everything, and compares.  The appliance counts soon after a read what it met.
agrees() {
	rm -rf "$DIR/out"
	ctl -q export /tree "$DIR/out" >/dev/null 2>&1
	n=0
	until ctl --json damaged >"$DIR/list" 2>/dev/null && ctl --json status >"$DIR/status" &&
		python3 test/e2e/damage_agree.py "$DIR/src" "$DIR/out" /tree "$DIR/list" "$DIR/status" "$DIR/daemon.log" >"$DIR/agree"; do
		n=$((n + 1))
		[ $n -lt 30 ] || { not_ok "$1" "$(cat "$DIR/agree")"; return; }
		sleep 0.2
	done
	ok "$1"
	sed 's/^/# /' "$DIR/agree"
}
# has WORD LEAST: the last comparison counted as many of it at least.
has() { [ "$(tail -n 1 "$DIR/agree" | tr ',;' '\n\n' | sed -n "s/^ *\([0-9]*\) $1.*/\1/p")" -ge "$2" ]; }
# A whole round that began after this call has ended: rounds begin a minute apart.
round() {
	rounds=$(number scrub rounds) n=0
	until [ "$(number scrub rounds)" -gt "$rounds" ]; do
		n=$((n + 1))
		[ $n -lt 1200 ] || return 1
		sleep 0.2
	done
}
fresh() { # a store with the tree, restarted, so that nothing is in memory; the first round is over
	"$BIN/wekactl" -q --force format --protect none "$D0" "$D1" "$D2" "$D3" || return 1
	start && ctl -q import "$DIR/src" /tree && stop && : >"$DIR/daemon.log" && start || return 1
	n=0
	until [ "$(number scrub rounds)" -ge 1 ]; do
		n=$((n + 1))
		[ $n -lt 600 ] || return 1
		sleep 0.1
	done
	quiet
}
zero() { # DRIVE BLOCK COUNT...
	d=$1
	shift
	overwrite "$DIR/d$d" 0 "$@"
}
none_damaged() { is "$1" "0 0" "$(number damage files) $(number damage pages)"; }
config() {
	write_conf "$D0" "$D1" "$D2" "$D3"
	printf 'scrub_bytes_per_second = 1G\ndrive_timeout = 1s\n' >>"$CONF"
}

# ---- a part of a drive is zeroed, pages of the index with it ------------------------------------------

config
check "a store" fresh
agrees "all is whole"
zero 1 129 8000
agrees "a part of a drive is zeroed: reads"
check "which met damage" has damaged 1
if [ "${TEST_LENGTH:-long}" != short ]; then
	check "the scrub has been everywhere" round
	agrees "a part of a drive is zeroed: the scrub"
	check "which has found damage" has damaged 1
fi
crash

# ---- headers of zones ---------------------------------------------------------------------------------

headers() { # of a drive's first 40 zones, both copies
	zone=0 runs=
	while [ $zone -lt 40 ]; do
		runs="$runs $((129 + zone * 16)) 1 $((129 + zone * 16 + 15)) 1"
		zone=$((zone + 1))
	done
	# shellcheck disable=SC2086
	zero "$1" $runs
}
check "a store" fresh
headers 1
agrees "headers of zones are gone: reads"
check "all is whole" has whole 100
none_damaged "and nothing is called damaged"
check "a clean stop" stop
check "start" start # the scrub takes a round for each 1,024 zones: test_meta_scrub_heads
check "they are written again" said "header of zone .*written again"
agrees "headers of zones are gone: the next start"
check "all is whole" has whole 100
none_damaged "and nothing is called damaged"
check "a clean stop" stop

# ---- a drive is missing -------------------------------------------------------------------------------

for place in 0 1 2 3; do # the index is on all of them, or on some
	mv "$DIR/d$place" "$DIR/away"
	config
	echo "allow_missing = $place" >>"$CONF"
	check "start without drive $place" start
	agrees "drive $place is missing: reads"
	check "which lost files" has lost 1
	none_damaged "and none is called damaged"
	check "a clean stop" stop
	mv "$DIR/away" "$DIR/d$place"
done

# ---- a drive is cut to nothing ------------------------------------------------------------------------

config
check "a store" fresh
: >"$DIR/d2"
agrees "a drive is cut to nothing: reads"
check "which lost files" has lost 1
check "the drive has failed" said "drive 2 (.*): has failed"
none_damaged "and none is called damaged"
crash

# ---- a drive's server is dead -------------------------------------------------------------------------

[ "${TEST_LENGTH:-long}" != short ] || finish

serve() { # N: a server for drive N
	for _ in 1 2 3 4; do
		: >"$DIR/server$1.out"
		"$SERVER" "$DIR/s$1" "file:$DIR/d$1?size=64M" >"$DIR/server$1.out" 2>>"$DIR/server.log" &
		pid=$!
		SERVERS="$SERVERS $pid"
		while kill -0 $pid 2>/dev/null; do
			grep -q ready "$DIR/server$1.out" && return 0
			sleep 0.05
		done
	done
	return 1
}
rm -f "$DIR"/d?
for d in 0 1 2 3; do
	check "a server" serve $d
	eval "D$d=vfio-user:$DIR/s$d"
done
config
check "a store" fresh
kill -9 $pid && wait $pid 2>/dev/null
check "the drive is away" health 3 away
agrees "a drive's server is dead: reads"
check "which lost files" has lost 1
check "the scrub has been everywhere" round
agrees "a drive's server is dead: the scrub"
none_damaged "and none is called damaged"
is "nor any block" "0 0" "$(number scrub bad_blocks) $(number scrub bad_pages)"
lines=$(grep -c scrub "$DIR/daemon.log")
[ "$lines" -lt 30 ] && ok "in a few lines" || not_ok "in a few lines" "$lines"
check "the server is back" serve 3
check "and so is the drive" health 3 good
agrees "all is whole again"
check "every file" has whole 100
is "and nothing is listed" "" "$(ctl damaged 2>/dev/null)"
check "a clean stop" stop
finish

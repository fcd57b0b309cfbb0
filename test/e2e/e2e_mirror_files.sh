#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# A store of two copies serves while somebody deletes one of its files, cuts another, and writes zeros
# over a third: no operation fails, every byte stays, and log and status say what has happened.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

case ${TEST_LENGTH:-} in
short) echo "skip: files under a mirrored store that somebody destroys: in the longer tests"; exit ;;
esac
CACHE=16M
: "${APP_CORES:=2}"
WITNESS=$BIN/../test/guest/witness
for d in 0 1 2 3 4; do eval "D$d=file:$DIR/d$d?size=96M"; done
write_conf "$D0" "$D1" "$D2" "$D3" "$D4"
echo "scrub_bytes_per_second = 256M" >>"$CONF"
make_tree "$DIR/src" 200

within() { # SECONDS COMMAND...: it succeeds some time
	left=$(($1 * 5))
	shift
	until "$@"; do
		left=$((left - 1))
		[ $left -gt 0 ] || { ctl status; tail -n 5 "$DIR/daemon.log"; return 1; }
		sleep 0.2
	done
}
is_all_there() {
	rm -rf "$DIR/out"
	ctl -q export /tree "$DIR/out" && same_trees "$DIR/src" "$DIR/out"
}
# Two clients change and read files all the time, with a deadline of 10 s; they end at the first failure.
begin() {
	witnesses=
	for w in 1 2; do
		echo 0 >"$DIR/journal.$w.$1"
		"$WITNESS" steady "$SHM" "$DIR/key" "$w$1" "$DIR/journal.$w.$1" >"$DIR/witness.$w" 2>&1 &
		witnesses="$witnesses $!"
	done
	run=$1
}
has_done() { # CHANGES of each, since the run began
	for w in 1 2; do
		read -r done rest <"$DIR/journal.$w.$run" && [ "$done" -ge "$1" ] || return 1
	done
}
lives() { for w in $witnesses; do kill -0 "$w" || { cat "$DIR"/witness.*; return 1; }; done; }
ends() { # all that they were told is there
	bad=0
	for w in $witnesses; do kill -TERM "$w" && wait "$w" || bad=1; done
	[ $bad = 0 ] || cat "$DIR"/witness.*
	return $bad
}
mended_or_lost() { [ "$(number scrub healed)" -gt 0 ] || [ "$(state "$1")" != serving ]; } # DRIVE
forget() { sed -i "\\|^drive = file:$DIR/d$1?|d" "$CONF"; } # DRIVE: as the manual says of one that is gone
# Its superblocks are gone, too: after a start the store does without it, if it was not lost before.
again() { # DRIVE
	[ "$(state "$1")" = serving ] || check "the lost drive leaves" within 120 is_gone "$1"
	! is_gone "$1" || forget "$1"
	check "a clean stop" stop
	check "a start without it" start
	check "the log says what became of it" grep -q "mounted, but drive $1, .* is missing: it counts as lost\|/d$1?.*: empty and removed from the store" "$DIR/daemon.log"
	check "its content is on the others, and it is gone" within 120 is_gone "$1"
	check "all is there" is_all_there
	forget "$1"
}
is_gone() { [ "$(state "$1")" = gone ]; }
trap 'for w in ${witnesses:-}; do kill -9 "$w" 2>/dev/null; done; cleanup' EXIT

check "format" "$BIN/wekactl" format --protect mirror "$D0" "$D1" "$D2" "$D3" "$D4"
check "start" start
check "import" ctl -q import "$DIR/src" /tree

# ---- zeros ------------------------------------------------------------------------------------------------

begin 1
check "clients change and read" within 60 has_done 50
overwrite "$DIR/d1" 0 0 $((96 * 256))
check "zeros over a whole drive: they go on" within 60 has_done 200
check "all is there" is_all_there
check "copies are mended, or the drive is lost, and the status says so" within 150 mended_or_lost 1
check "no operation has failed" lives
is "nothing is damaged" "0 0" "$(number scrub bad_blocks) $(number scrub bad_pages)"
check "what clients were told is there" ends
check "the log names the drive" within 150 grep -q "on drive 1, block\|drive 1 (" "$DIR/daemon.log"
again 1

# ---- cut off ------------------------------------------------------------------------------------------------

begin 2
check "clients change and read" within 60 has_done 50
: >"$DIR/d2"
check "a file of no bytes: they go on" within 60 has_done 200
check "all is there" is_all_there
check "copies are mended, or the drive is lost, and the status says so" within 150 mended_or_lost 2
check "no operation has failed" lives
check "what clients were told is there" ends
is "nothing is damaged" "0 0" "$(number scrub bad_blocks) $(number scrub bad_pages)"
check "the log names the drive" within 150 grep -q "on drive 2, block\|drive 2 (" "$DIR/daemon.log"
again 2

# ---- deleted ------------------------------------------------------------------------------------------------

begin 3
check "clients change and read" within 60 has_done 50
rm "$DIR/d3"
check "a file without a name: they go on" within 60 has_done 150
check "all is there" is_all_there
check "no operation has failed" lives
check "what clients were told is there" ends
is "nobody can know before the next start" serving "$(state 3)"
again 3
check "a clean stop" stop
check "check finds nothing" "$BIN/wekactl" -f "$CONF" check
finish

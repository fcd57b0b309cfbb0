#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# A store of two copies loses a drive while it serves, and while it does not: no read fails, the store
# makes itself whole on the other drives, and takes a new one.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

CACHE=16M
: "${APP_CORES:=2}"
for d in 0 1 2 3 4; do eval "D$d=file:$DIR/d$d?size=96M"; done
write_conf "$D0" "$D1" "$D2" "$D3"
echo "scrub_bytes_per_second = 256M" >>"$CONF"
make_tree "$DIR/src" 300

is_all_there() {
	rm -rf "$DIR/out"
	ctl -q export /tree "$DIR/out" && same_trees "$DIR/src" "$DIR/out"
}
# A write makes the file that is cut as long as before, with zeros that can be read: so it is cut again
# until the drive is lost, while everything is read.  Then it has again what it had.
fails() { # DRIVE
	n=0
	cp "$DIR/d$1" "$DIR/had"
	(while [ -e "$DIR/had" ]; do : >"$DIR/d$1" && sleep 0.02; done) &
	CUTS=$!
	until [ "$(state "$1")" = lost ] || [ "$(state "$1")" = gone ]; do
		n=$((n + 1))
		is_all_there && [ $n -lt 100 ] || { ctl status; break; }
	done
	mv "$DIR/had" "$DIR/put"
	wait $CUTS
	cat "$DIR/put" >"$DIR/d$1"
	[ "$(state "$1")" = lost ] || [ "$(state "$1")" = gone ]
}

check "format, and it says what is kept" sh -c "'$BIN/wekactl' format --protect mirror '$D0' '$D1' '$D2' '$D3' | grep 'each block is on two drives'"
refuses "two copies need two drives" "need two drives" "$BIN/wekactl" format --force --protect mirror "$D4"
"$BIN/wekactl" format --force --protect raid "$D4" 2>&1 | grep -q "protect is none, mirror" && ok "a word that is none" || not_ok "a word that is none"
check "start" start
check "import" ctl -q import "$DIR/src" /tree
check "all is there" is_all_there
used=$(number store used_bytes)

# ---- while it serves ----------------------------------------------------------------------------------

check "no byte of a drive can be read: it is lost, and all is read" fails 2
check "changes go on" ctl -q import "$DIR/src" /more
check "the log says what that means" said "error: WEKA-313: drive 2 .*d2.* is lost: its blocks are read from other drives, and copied there"
check "what it had is copied to the others, and it is gone" until_state 2 gone
check "which the log says, too" said "info: drive 2 is gone from the store: each block has two copies again"
check "all is there" is_all_there

# ---- wrong bytes ---------------------------------------------------------------------------------------

healed() { number scrub healed; }
overwrite "$DIR/d1" 90 # readers must get the other copy
check "a drive has other bytes, and all is read" is_all_there
is "no drive is lost" "serving serving serving" "$(state 0) $(state 1) $(state 3)"
check "copies that reads have met are mended" sh -c "n=0; until [ \$n -gt 100 ] || '$BIN/wekactl' --connect '$SHM' --key '$DIR/key' --json status | grep -q '\"healed\":[1-9]'; do n=\$((n + 1)); sleep 0.1; done; [ \$n -le 100 ]"
check "a clean stop" stop
check "a start with what is left of that drive" start
[ -n "$DAEMON" ] && kill -0 "$DAEMON" || finish
round_ends() {
	n=0
	until [ "$(number scrub rounds)" -gt 0 ]; do
		n=$((n + 1))
		[ $n -lt 600 ] || return 1
		sleep 0.1
	done
}
check "a round of the scrub ends" round_ends
check "the log names the drive" grep -q "WEKA-312: [0-9]* damaged cop.* on drive 1, block" "$DIR/daemon.log"
[ "$(healed)" -gt 100 ] && ok "it has mended the rest" || not_ok "it has mended the rest" "$(healed)"
is "nothing is damaged" "0 0" "$(number scrub bad_blocks) $(number scrub bad_pages)"
check "writes that merge with old blocks find good ones" sh -c "for i in 1 2 3; do '$BIN/wekactl' --connect '$SHM' --key '$DIR/key' -q import '$DIR/src/sub' /tree/sub; done"

check "a clean stop" stop
check "check finds nothing" "$BIN/wekactl" -f "$CONF" check

# ---- at a start -----------------------------------------------------------------------------------------

mv "$DIR/d0" "$DIR/away"
check "one of three is missing: it starts" start
is "and counts as lost" lost "$(state 0)"
ctl status >"$DIR/page"
grep -q "^! serving, degraded: drive 0 is lost" "$DIR/page" && ok "the headline says so" || not_ok "the headline says so" "$(cat "$DIR/page")"
check "all is there" is_all_there
check "changes go on" ctl -q rm -r /more
check "a clean stop" stop
mv "$DIR/away" "$DIR/d0"
check "it is back, and not believed" start
[ "$(state 0)" = serving ] && not_ok "it stays lost" || ok "it stays lost"
check "all is there" is_all_there
check "a new drive is offered" "$BIN/wekactl" drives add "$D4"
sed -i "s|^drive = $D0\$|drive = $D4|; \|^drive = $D2\$|d" "$CONF"
kill -HUP "$DAEMON"
check "it is taken" until_state 4 serving
check "the lost one goes" until_state 0 gone
check "all is there" is_all_there

# ---- killed while it copies --------------------------------------------------------------------------------

check "another one fails" fails 1
crash
check "start after a kill" start
check "all is there" is_all_there
check "it goes" until_state 1 gone
check "all is there at the end" is_all_there
check "a clean stop" stop
check "check finds nothing at the end" "$BIN/wekactl" -f "$CONF" check

# ---- compared, without the appliance -----------------------------------------------------------------------

copies() { "$BIN/wekactl" -f "$CONF" --copies check 2>&1; }
copies >"$DIR/said"
is "both copies of all are the same" "0 1" "$? $(grep -c '^copies: .* 0 first copies are wrong, 0 second, 0 both' "$DIR/said")"
cp "$DIR/d4" "$DIR/had"
overwrite "$DIR/d4" 17
copies >"$DIR/said"
is "a drive has other bytes: the exit status says so" 1 $?
check "the copies on it are named" grep -q "copy, drive 4 block [0-9]*: does not match its checksum" "$DIR/said"
grep -q "copy, drive [0-35-9]" "$DIR/said" && not_ok "no other is" "$(cat "$DIR/said")" || ok "no other is"
mv "$DIR/had" "$DIR/d4"
check "dump names the set" sh -c "'$BIN/wekactl' -f '$CONF' dump set | grep -q 'gone'"
finish

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# A store whose pairs of zones are folded (parity) loses a drive while it serves, and while it does not:
# no read fails, the store makes itself whole on the other drives, and takes a new one.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

CACHE=16M
: "${APP_CORES:=2}"
for d in 0 1 2 3 4 5; do eval "D$d=file:$DIR/d$d?size=96M"; done
write_conf "$D0" "$D1" "$D2" "$D3" "$D4"
echo "scrub_bytes_per_second = 256M" >>"$CONF"
make_tree "$DIR/src" 300
head -c 16777216 /dev/urandom >"$DIR/src/large" # so that each drive has some zones of data

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
	put_back "$DIR/put" "$DIR/d$1"
	[ "$(state "$1")" = lost ] || [ "$(state "$1")" = gone ]
}

folded() { # BYTES: so many, at least, have parity
	n=0
	until [ "$(number store parity_protected_bytes)" -ge "$1" ]; do
		n=$((n + 1))
		[ $n -lt 1200 ] || { ctl protect; return 1; }
		sleep 0.1
	done
}
refuses "3 + 1 need four drives" "a drive for each zone of data and of parity" "$BIN/wekactl" format --protect 3+1 "$D0" "$D1" "$D2"
"$BIN/wekactl" format --force --protect 11+1 "$D4" 2>&1 | grep -q "protect is none, mirror, or 2+1" && ok "a scheme that is none" || not_ok "a scheme that is none"
check "format, and it says what is kept" sh -c "'$BIN/wekactl' format --protect mirror '$D0' '$D1' '$D2' '$D3' '$D4' | grep 'each block is on two drives'"
check "start" start
check "import" ctl -q import "$DIR/src" /tree
check "all is there" is_all_there
before=$(number store total_bytes)
check "protect 3+1" ctl protect 3+1
refuses "and again" "does that already" "$BIN/wekactl" -c "$SHM" -k "$DIR/key" protect 3+1
check "a restart closes what was open" stop
check "start" start
check "pairs become folds" folded 8000000
check "protect says so" sh -c "'$BIN/wekactl' -c '$SHM' -k '$DIR/key' protect | grep 'have parity instead'"
[ "$(number store total_bytes)" -gt $((before * 13 / 10)) ] && ok "there is more room" || not_ok "there is more room" "$before, $(number store total_bytes)"
check "all is there" is_all_there

# ---- while it serves ----------------------------------------------------------------------------------

check "no byte of a drive can be read: it is lost, and all is read" fails 2
check "changes go on" ctl -q import "$DIR/src" /more
check "the log says what that means" said "error: WEKA-313: drive 2 .*d2.* is lost: its blocks are read from other drives, and copied there"
check "what it had is copied to the others, and it is gone" until_state 2 gone
check "which the log says, too" said "info: drive 2 is gone from the store: each block has two copies again"
check "all is there" is_all_there

# ---- wrong bytes ---------------------------------------------------------------------------------------

healed() { number scrub healed; }
overwrite "$DIR/d1" 90 # readers must get the other copy, or compute it
check "a drive has other bytes, and all is read" is_all_there
is "no drive is lost" "serving serving serving serving" "$(state 0) $(state 1) $(state 3) $(state 4)"
check "copies that reads have met are mended" sh -c "n=0; until [ \$n -gt 1200 ] || '$BIN/wekactl' --connect '$SHM' --key '$DIR/key' --json status | grep -q '\"healed\":[1-9]'; do n=\$((n + 1)); sleep 0.1; done; [ \$n -le 1200 ]"
check "a clean stop" stop
overwrite "$DIR/d1" 91 # all of it again: the scrub may have been quick
check "a start with what is left of that drive" start
[ -n "$DAEMON" ] && kill -0 "$DAEMON" || finish
round_ends() {
	n=0
	until [ "$(number scrub rounds)" -gt 0 ]; do
		n=$((n + 1))
		[ $n -lt 1200 ] || return 1
		sleep 0.1
	done
}
check "a round of the scrub ends" round_ends
check "the log names the drive" said "WEKA-312: [0-9]* damaged cop.* on drive 1, block"
[ "$(healed)" -gt 100 ] && ok "it has mended the rest" || not_ok "it has mended the rest" "$(healed)"
is "nothing is damaged" "0 0" "$(number scrub bad_blocks) $(number scrub bad_pages)"
check "writes that merge with old blocks find good ones" sh -c "for i in 1 2 3; do '$BIN/wekactl' --connect '$SHM' --key '$DIR/key' -q import '$DIR/src/sub' /tree/sub; done"

check "a clean stop" stop
check "check finds nothing" "$BIN/wekactl" -f "$CONF" check

# ---- at a start -----------------------------------------------------------------------------------------

mv "$DIR/d0" "$DIR/away"
echo "rebuild_bytes_per_second = 16K" >>"$CONF" # so that it is lost, and not yet gone, until a new one comes
check "one of four is missing: it starts" start
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
check "a new drive is offered" "$BIN/wekactl" drives add "$D5"
sed -i "s|^drive = $D0\$|drive = $D5|; \|^drive = $D2\$|d; /^rebuild/d" "$CONF"
kill -HUP "$DAEMON"
check "it is taken" until_state 5 serving
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
is "all copies and all parity are right" "0 1" "$? $(grep -c '^copies: .* 0 first copies are wrong, 0 second, 0 both' "$DIR/said")"
check "dump names zones of parity" sh -c "'$BIN/wekactl' -f '$CONF' dump zones | grep -q 'parity'"
mv "$DIR/d4" "$DIR/away"
"$BIN/wekactl" -f "$CONF" --salvage "$DIR/saved" check >"$DIR/said" 2>&1
same_trees "$DIR/src" "$DIR/saved/tree/tree" && ok "all is salvaged without a drive" || not_ok "all is salvaged without a drive" "$(cat "$DIR/said")"
mv "$DIR/away" "$DIR/d4"
finish

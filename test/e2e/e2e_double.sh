#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# A store with two zones of parity (4+2) loses two of six drives, the second before the first is rebuilt,
# has other bytes on a third, starts without two, takes two new ones: every byte is compared.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

case ${TEST_LENGTH:-} in
short) echo "skip: a store with two zones of parity that loses drives: in the longer tests"; exit ;;
esac
CACHE=16M
: "${APP_CORES:=2}"
for d in 0 1 2 3 4 5 6 7; do eval "D$d=file:$DIR/d$d?size=160M"; done
write_conf "$D0" "$D1" "$D2" "$D3" "$D4" "$D5"
echo "scrub_bytes_per_second = 256M" >>"$CONF"
make_tree "$DIR/src" 200
head -c 16777216 /dev/urandom >"$DIR/src/large" # so that each drive has some zones of data

is_all_there() {
	rm -rf "$DIR/out"
	ctl -q export /tree "$DIR/out" && same_trees "$DIR/src" "$DIR/out"
}
is_lost() { [ "$(state "$1")" = lost ] || [ "$(state "$1")" = gone ]; }
protect_says() { ctl protect | grep "$1"; } # TEXT
may_lose() { ctl --json protect | sed -n 's/.*"may_lose":\([0-9]*\).*/\1/p'; }

# A write makes the file that is cut as long as before, with zeros that can be read: so it is cut again
# until the drive is lost, while everything is read.
fails() { # DRIVE
	n=0
	: >"$DIR/cuts"
	(while [ -e "$DIR/cuts" ]; do : >"$DIR/d$1" && sleep 0.02; done) &
	CUTS=$!
	until is_lost "$1"; do
		n=$((n + 1))
		is_all_there && [ $n -lt 100 ] || { ctl status; break; }
	done
	rm "$DIR/cuts"
	wait $CUTS
	is_lost "$1"
}
folded() { # BYTES: so many, at least, have parity
	n=0
	until [ "$(number store parity_protected_bytes)" -ge "$1" ]; do
		n=$((n + 1))
		[ $n -lt 300 ] || { ctl protect; return 1; }
		sleep 0.1
	done
}

# ---- format, and what is in it --------------------------------------------------------------------------

refuses "4 + 2 need six drives" "a drive for each zone of data and of parity" "$BIN/wekactl" format --protect 4+2 "$D0" "$D1" "$D2" "$D3" "$D4"
check "format, and it says what is kept" sh -c "'$BIN/wekactl' format --protect 1+2 '$D0' '$D1' '$D2' '$D3' '$D4' '$D5' | grep '4+2 two thirds'"
check "start" start
check "import" ctl -q import "$DIR/src" /tree
before=$(number store total_bytes)
refuses "5 + 2 need seven drives" "as many drives, .* as both numbers together" "$BIN/wekactl" -c "$SHM" -k "$DIR/key" protect 5+2
check "protect 4+2" ctl protect 4+2
check "a restart closes what was open" stop
check "start" start
check "groups become folds" folded 8000000
check "protect says so" protect_says "have parity instead, two for up to 4"
is "two drives may be lost" 2 "$(may_lose)"
[ "$(number store total_bytes)" -gt $((before * 13 / 10)) ] && ok "there is more room" || not_ok "there is more room" "$before, $(number store total_bytes)"
check "all is there" is_all_there

# ---- two drives fail, and a third one has wrong bytes ------------------------------------------------------

echo "rebuild_bytes_per_second = 64K" >>"$CONF" # so that the first drive is still lost when the second fails
check "a clean stop" stop
check "start" start
check "no byte of a drive can be read: it is lost, and all is read" fails 2
check "a second one fails" fails 4
is "while the first is still lost" "lost lost" "$(state 2) $(state 4)"
check "all is there" is_all_there
check "changes go on" ctl -q import "$DIR/src" /more
is "no other drive may be lost" 0 "$(may_lose)"
crash
rm -f "$DIR/d2" "$DIR/d4"
check "a start without both, after a kill" start
check "all is there" is_all_there
sed -i "s|^drive = $D2\$|drive = $D6|; s|^drive = $D4\$|drive = $D7|; /^rebuild_bytes/d" "$CONF"
check "a new drive is offered" "$BIN/wekactl" drives add "$D6"
check "and another one" "$BIN/wekactl" drives add "$D7"
kill -HUP "$DAEMON"
check "it is taken" until_state 6 serving
check "the other one, too" until_state 7 serving
check "the first lost one goes" until_state 2 gone
check "the second one goes" until_state 4 gone
is "two may be lost again" 2 "$(may_lose)"
check "all is there" is_all_there

# ---- wrong bytes, and a drive that fails ------------------------------------------------------------------

overwrite "$DIR/d1" 90 # readers must compute what was there
check "a drive has other bytes, and all is read" is_all_there
check "another one fails, and all is read" fails 5
check "it goes" until_state 5 gone
check "all is there" is_all_there
check "a clean stop" stop
check "check finds nothing" "$BIN/wekactl" -f "$CONF" check

# ---- compared, without the appliance ------------------------------------------------------------------------

check "start" start
round_ends() {
	n=0
	until [ "$(number scrub rounds)" -gt 0 ]; do
		n=$((n + 1))
		[ $n -lt 600 ] || return 1
		sleep 0.1
	done
}
check "a round of the scrub ends" round_ends
is "nothing is damaged" "0 0" "$(number scrub bad_blocks) $(number scrub bad_pages)"
check "a clean stop" stop
"$BIN/wekactl" -f "$CONF" --copies check >"$DIR/said" 2>&1
is "all copies and all parity are right" "0 1" "$? $(grep -c '^copies: .* 0 first copies are wrong, 0 second, 0 third, 0 all' "$DIR/said")"
mv "$DIR/d0" "$DIR/away0"
mv "$DIR/d3" "$DIR/away3"
"$BIN/wekactl" -f "$CONF" --salvage "$DIR/saved" check >"$DIR/said" 2>&1
same_trees "$DIR/src" "$DIR/saved/tree/tree" && ok "all is salvaged without two drives" || not_ok "all is salvaged without two drives" "$(cat "$DIR/said")"
mv "$DIR/away0" "$DIR/d0"
mv "$DIR/away3" "$DIR/d3"
finish

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# A store of three copies loses two of five drives under load, the second before the first is copied;
# starts without both, takes two new ones, loses a third: no read fails, and every byte is compared.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

CACHE=16M
: "${APP_CORES:=2}"
for d in 0 1 2 3 4 5 6; do eval "D$d=file:$DIR/d$d?size=160M"; done
write_conf "$D0" "$D1" "$D2" "$D3" "$D4"
make_tree "$DIR/src" 200

is_all_there() {
	rm -rf "$DIR/out"
	ctl -q export /tree "$DIR/out" && same_trees "$DIR/src" "$DIR/out"
}
protect_says() { ctl protect | grep "$1"; } # TEXT
may_lose() { ctl --json protect | sed -n 's/.*"may_lose":\([0-9]*\).*/\1/p'; }
is_lost() { [ "$(state "$1")" = lost ] || [ "$(state "$1")" = gone ]; }

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

# Clients write, read and remove all the time; the first error ends that.
load() {
	(
		i=0
		while [ -e "$DIR/load" ]; do
			i=$((i + 1))
			ctl -q import "$DIR/src" "/load$((i % 3))" || { echo "import $i" >"$DIR/load.failed"; break; }
			rm -rf "$DIR/load.out"
			ctl -q export "/load$((i % 3))" "$DIR/load.out" || { echo "export $i" >"$DIR/load.failed"; break; }
			ctl -q rm -r "/load$((i % 3))" || { echo "rm $i" >"$DIR/load.failed"; break; }
		done
	) >"$DIR/load.said" 2>&1 &
	LOAD=$!
}

# ---- format ---------------------------------------------------------------------------------------------

refuses "three copies need three drives" "three drives: name 1 more" "$BIN/wekactl" format --protect 1+2 "$D5" "$D6"
refuses "from one, too" "three drives: name 2 more" "$BIN/wekactl" format --protect 1+2 "$D5"
[ -e "$DIR/d5" ] && not_ok "no drive was made" || ok "no drive was made"
check "format, and it says what is kept" sh -c "'$BIN/wekactl' format --protect 1+2 '$D0' '$D1' '$D2' '$D3' '$D4' | grep 'any two drives may be lost'"
echo "rebuild_bytes_per_second = 64K" >>"$CONF" # so that the first drive is still lost when the second fails
echo "scrub_bytes_per_second = 256M" >>"$CONF"
check "start" start
check "import" ctl -q import "$DIR/src" /tree
check "protect says how many drives may be lost" protect_says "on three drives: any two drives may be lost"
is "a script reads it" "3 2" "$(number store copies) $(may_lose)"
refuses "a store of three copies stays as it is" "may be lost never becomes less" "$BIN/wekactl" -c "$SHM" -k "$DIR/key" protect mirror
refuses "without parity" "may be lost never becomes less" "$BIN/wekactl" -c "$SHM" -k "$DIR/key" protect 3+1
refuses "and it is one already" "does that already" "$BIN/wekactl" -c "$SHM" -k "$DIR/key" protect 1+2

# ---- two drives, under load -----------------------------------------------------------------------------

: >"$DIR/load"
load
check "a drive fails under load: it is lost, and all is read" fails 1
check "the log says what that means" said "error: WEKA-313: drive 1 .* is lost: .* only one other may be lost"
check "a second one fails" fails 3
is "while the first is still lost" "lost lost" "$(state 1) $(state 3)"
check "the log says that no other may fail" said "error: WEKA-313: drive 3 .* no other may be lost"
check "all is there" is_all_there
rm "$DIR/load"
wait $LOAD
[ -e "$DIR/load.failed" ] && not_ok "no client of the load saw an error" "$(cat "$DIR/load.failed" "$DIR/load.said")" || ok "no client of the load saw an error"
ctl status >"$DIR/page"
check "the headline names both" grep -q "^! serving, degraded: drive 1 is lost, drive 3 is lost" "$DIR/page"
check "the rebuild says what has fewer copies" sh -c "tr -s '\n ' '  ' <'$DIR/page' | grep -q 'have fewer than three'"
check "so does protect" protect_says "that have fewer copies"
is "a script reads how many may be lost now" 0 "$(may_lose)"
check "a clean stop" stop

# ---- a start without both -------------------------------------------------------------------------------

rm "$DIR/d1" "$DIR/d3"
check "a start without both" start
check "all is there" is_all_there
is "both are lost" "lost lost" "$(state 1) $(state 3)"
crash
check "a start after a kill" start
check "all is there" is_all_there
check "a clean stop" stop
check "check finds nothing" "$BIN/wekactl" -f "$CONF" check
check "a new drive may be offered meanwhile" start

# ---- replaced -------------------------------------------------------------------------------------------

check "a new drive is offered" "$BIN/wekactl" drives add "$D5"
check "and another one" "$BIN/wekactl" drives add "$D6"
sed -i "s|^drive = $D1\$|drive = $D5|; s|^drive = $D3\$|drive = $D6|; /^rebuild_bytes/d" "$CONF"
kill -HUP "$DAEMON"
check "it is taken" until_state 5 serving
check "the other one, too" until_state 6 serving
check "the first lost one goes" until_state 1 gone
check "the second one goes" until_state 3 gone
check "the log says that one is still lost" said "is gone from the store: all that lay there has been copied; drive [13] is still lost"
check "the log says when all is whole" said "is gone from the store: each block has three copies again"
check "any two may be lost again" protect_says "any two drives may be lost"
is "as a script reads" 2 "$(may_lose)"
check "all is there" is_all_there

# A later round of the scrub forgets what it had found on a drive that is lost now.
nothing_is_damaged() {
	n=0
	until [ "$(number damage files) $(number scrub bad_blocks) $(number scrub bad_pages)" = "0 0 0" ]; do
		n=$((n + 1))
		[ $n -lt 600 ] || { ctl status; return 1; }
		sleep 0.1
	done
}
check "no file is damaged" nothing_is_damaged

# ---- a third one, and a fourth at once ------------------------------------------------------------------

check "a third one fails" fails 0
check "it goes" until_state 0 gone
check "all is there" is_all_there
check "a clean stop" stop
"$BIN/wekactl" -f "$CONF" --copies check >"$DIR/said" 2>&1
is "all copies agree" "0 1" "$? $(grep -c '^copies: .* 0 of them have fewer than three copies; 0 first copies are wrong, 0 second, 0 third, 0 all' "$DIR/said")"
rm -f "$DIR/d0"
sed -i "\|^drive = $D0\$|d" "$CONF"
mv "$DIR/d2" "$DIR/away2"
mv "$DIR/d5" "$DIR/away5"
refuses "two of four are missing: the others cannot know who is right" "allow_missing = 2,5 starts if" "$BIN/weka-appliance" --config "$CONF"
echo "allow_missing = 2,5" >>"$CONF"
mv "$DIR/d4" "$DIR/away4"
refuses "a third one is missing" "d4.*; 2 others are missing as well, and allow_missing permits only 2" "$BIN/weka-appliance" --config "$CONF"
mv "$DIR/away4" "$DIR/d4"
check "the operator says that both are lost" start
check "all is there" is_all_there
check "changes go on" ctl -q import "$DIR/src" /more
check "a clean stop" stop
check "check finds nothing at the end" sh -c "sed -i '/^allow_missing/d; \|^drive = $D2\$|d; \|^drive = $D5\$|d' '$CONF'; '$BIN/wekactl' -f '$CONF' check"

finish

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# A store of one copy gets a second copy of each block while clients write, over a kill of the appliance,
# and then a third one, over another kill; then it loses two drives, and nothing of what it had.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

CACHE=16M
: "${APP_CORES:=4}"
for d in 0 1 2; do eval "D$d=file:$DIR/d$d?size=160M"; done
write_conf "$D0" "$D1" "$D2"
make_tree "$DIR/src" 300

said_by() { ctl protect | grep "$1"; } # TEXT: wekactl protect says so
number() { ctl --json protect | sed -n "s/.*\"$1\":\([0-9a-z]*\).*/\1/p"; }
has_converted() {
	n=0
	until [ "$(number converts)" = false ]; do
		n=$((n + 1))
		[ $n -lt 1800 ] || { ctl status; return 1; }
		sleep 0.1
	done
}
is_all_there() { # NAME
	rm -rf "$DIR/out"
	ctl -q export "$1" "$DIR/out" && same_trees "$DIR/src" "$DIR/out"
}

formats_with() { # COPIES FOLD OPTION...
	copies=$1 fold=$2 && shift 2
	"$BIN/wekactl" --json format "$@" >"$DIR/format.json" &&
		grep -q "\"copies\":$copies,\"fold\":$fold}" "$DIR/format.json"
}
check "one drive has one copy" formats_with 1 0 "$D0"
check "two have two, if nothing else is said" formats_with 2 0 --force "$D0" "$D1"
check "or one, if that is said" formats_with 1 0 --force --protect none "$D0" "$D1"
more="$D0 $D1 $D2 file:$DIR/more3?size=32M"
check "so have three" formats_with 2 0 --force "$D0" "$D1" "$D2"
# shellcheck disable=SC2086 # names without spaces
check "four have parity" formats_with 2 3 --force $more
more="$more file:$DIR/more4?size=32M file:$DIR/more5?size=32M"
# shellcheck disable=SC2086
check "six have two zones of it" formats_with 3 4 --force $more
rm "$DIR"/more?
check "format" "$BIN/wekactl" --force format --protect none "$D0" "$D1" "$D2"
echo "rebuild_bytes_per_second = 512K" >>"$CONF" # so that it is under way while we look
check "start" start
check "import" ctl -q import "$DIR/src" /tree
check "protect says that a drive takes its files with it" said_by "on one drive: if it fails"
refuses "a way that there is not" "these ways to ask for: mirror" "$BIN/wekactl" -c "$SHM" -k "$DIR/key" protect raid6

# ---- while a client writes ------------------------------------------------------------------------
(
	while [ ! -e "$DIR/enough" ]; do
		ctl -q import "$DIR/src" /busy >"$DIR/busy.out" 2>&1 || echo "import failed" >>"$DIR/busy.bad"
		ctl rm -r /busy 2>>"$DIR/busy.bad"
		[ ! -e "$DIR/first" ] || echo >"$DIR/after"
		: >"$DIR/first"
	done
) &
writer=$!
check "protect mirror" ctl protect mirror
refuses "and again" "already, or is getting its second" "$BIN/wekactl" -c "$SHM" -k "$DIR/key" protect mirror
check "status says what that means" sh -c "'$BIN/wekactl' -c '$SHM' -k '$DIR/key' status | grep 'no drive may be lost'"
is "two copies" 2 "$(number copies)"
check "so does the log" said "info: each block of the store gets a second copy"
check "while it is at it all is there" is_all_there /tree
touch "$DIR/enough"
wait $writer
check "the writer saw nothing of it" [ ! -s "$DIR/busy.bad" ]

# ---- it goes on after a kill ----------------------------------------------------------------------
crash
sed -i '/^rebuild_bytes/d' "$CONF"
check "start after a kill" start
is "two copies, still" 2 "$(number copies)"
check "all get their second copy" has_converted
check "the log says when" said "info: each block of the store has two copies: one drive may be lost"
is "none has one" 0 "$(number one_copy_bytes)"
check "protect says so" said_by "one drive may be lost"
check "all is there" is_all_there /tree
check "stop" stop
check "the store is whole" "$BIN/wekactl" check "$D0" "$D1" "$D2"

# ---- a third one -----------------------------------------------------------------------------------
echo "rebuild_bytes_per_second = 64K" >>"$CONF" # so that it is not over at once
check "start" start
is "one drive may be lost" 1 "$(number may_lose)"
refuses "two of parity need three copies first" "three copies of each block first" "$BIN/wekactl" -c "$SHM" -k "$DIR/key" protect 2+2
check "protect 1+2" ctl protect 1+2
refuses "and again" "already, or is getting its third" "$BIN/wekactl" -c "$SHM" -k "$DIR/key" protect 1+2
is "one drive, still, while it gets third copies" "3 true 1" "$(number copies) $(number converts) $(number may_lose)"
check "status says so" sh -c "'$BIN/wekactl' -c '$SHM' -k '$DIR/key' status | tr -s '\n ' '  ' | grep 'three only one drive may be lost'"
check "so does the log" said "info: each block of the store gets a third copy: until all have three, one drive"
check "changes go on" ctl -q import "$DIR/src" /during
crash
check "start after a kill" start
is "it is still at it" "3 true 1" "$(number copies) $(number converts) $(number may_lose)"
check "all is there" is_all_there /tree
sed -i '/^rebuild_bytes/d' "$CONF"
kill -HUP "$DAEMON"
check "all get their third copy" has_converted
check "the log says when" said "info: each block of the store has three copies: two drives may be lost"
is "two drives may be lost" "2 0" "$(number may_lose) $(number one_copy_bytes)"
check "protect says so" said_by "any two drives may be lost"
check "all is there" is_all_there /during
check "stop" stop
check "the store is whole" "$BIN/wekactl" check "$D0" "$D1" "$D2"

# ---- two drives are lost ---------------------------------------------------------------------------
rm "$DIR/d1"
write_conf "$D0" "$D2"
check "start without a drive" start
check "all is there without it" is_all_there /tree
check "changes go on" ctl -q import "$DIR/src" /more
check "and are there" is_all_there /more
check "stop" stop
rm "$DIR/d0"
write_conf "$D2"
echo "allow_missing = 0" >>"$CONF"
check "start without another one" start
check "all is there on the last" is_all_there /tree
check "and what came since" is_all_there /more
check "stop" stop
finish

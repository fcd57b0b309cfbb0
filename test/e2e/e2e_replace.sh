#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# A drive of a store of two copies is replaced: a healthy one, with a kill in the midst of it, and a lost
# one; and a full store has the room that the rebuild of its largest drive takes.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

CACHE=16M
: "${APP_CORES:=1}"
for d in 0 1 2 3 4 5; do eval "D$d=file:$DIR/d$d?size=64M"; done
SMALL=file:$DIR/small?size=8M
write_conf "$D0" "$D1" "$D2"
echo "spare_drives = 0" >>"$CONF"
make_tree "$DIR/src" 60
admin="$BIN/wekactl --connect $SHM --key $DIR/key -f $CONF"

field() { # EXPRESSION: of the status, as s
	ctl --json status | /usr/bin/python3 -c 'import json, sys; s = json.load(sys.stdin); print(eval(sys.argv[1]))' "$1"
}
until_is() { # WANTED EXPRESSION
	n=0
	until [ "$(field "$2")" = "$1" ]; do
		n=$((n + 1))
		[ $n -lt 600 ] || { ctl status; return 1; }
		sleep 0.05
	done
}
until_gone() { until_is False "any(d['number'] == $1 for d in s['drives'])"; }
is_all_there() {
	rm -rf "$DIR/out"
	ctl -q export /tree "$DIR/out" && same_trees "$DIR/src" "$DIR/out"
}
replace() { # OLD NEW: the line for the configuration goes there
	$admin drives replace "$1" "$2" >"$DIR/line" 2>"$DIR/then" || { cat "$DIR/then"; return 1; }
	sed -i "1r $DIR/line" "$CONF"
	kill -HUP "$DAEMON"
}
without() { # NUMBER: the line of this drive leaves the configuration
	sed -i "\\|^drive = file:$DIR/d$1?|d" "$CONF"
}

check "format" "$BIN/wekactl" format --protect mirror "$D0" "$D1" "$D2"
check "start" start
check "import" ctl -q import "$DIR/src" /tree

# ---- what is refused ----------------------------------------------------------------------------------

head -c 20000000 /dev/urandom >"$DIR/fill"
check "there is more than a small drive holds" sh -c "for i in 1 2; do $admin put '$DIR/fill' /fill-\$i || exit 1; done"
refuses "a drive that the store does not have" "no drive of the store" $admin drives replace file:/nowhere "$D3"
refuses "a new drive that is too small" "is too small" $admin drives replace "$D0" "$SMALL"
[ -e "$DIR/small" ] && not_ok "a file that was made for it is gone" || ok "a file that was made for it is gone"
refuses "itself" "is to be replaced" $admin drives replace 1 "$D1"
check "another store" "$BIN/wekactl" format "$D3"
refuses "a drive of another store" "holds a store already" $admin drives replace "$D0" "$D3"
is "nothing has changed" "serving serving serving" "$(state 0) $(state 1) $(state 2)"

# ---- a healthy one --------------------------------------------------------------------------------------

check "a new drive for drive 0" $admin --force drives replace "$D0" "$D3"
rm -f "$DIR/d3"
check "... by its name, in an empty drive" replace "$D0" "$D3"
grep -q "drive 0 is drained then, and its line must stay" "$DIR/then" && ok "it says what to do" || not_ok "it says what to do" "$(cat "$DIR/then")"
check "the new one is drive 3" until_is True "any(d['number'] == 3 for d in s['drives'])"
check "the old one leaves" until_gone 0
check "all is there" is_all_there
without 0
refuses "one that is a drive of the store replaces none" "is drive 3\|no drive of the store" $admin drives replace 0 "$D4"

# ---- killed in the midst of it -------------------------------------------------------------------------

echo "rebuild_bytes_per_second = 64K" >>"$CONF"
kill -HUP "$DAEMON"
check "a new drive for drive 1, slowly" replace 1 "$D4"
check "drive 1 is drained" until_is draining "{d['number']: d['state'] for d in s['drives']}.get(1)"
is "and the status says so" "drain 1 65536 True" "$(field "' '.join(str(s['rebuild'][k]) for k in ('what', 'drive', 'limit_bytes_per_second')) + ' ' + str(s['rebuild']['left_bytes'] > 0)")"
ctl status | grep -q "^drain     drive 1: .* left" && ok "and the page" || not_ok "and the page" "$(ctl status)"
crash
sed -i '/^rebuild_bytes_per_second/d' "$CONF"
check "start after a kill" start
check "it goes on, and the old one leaves" until_gone 1
check "all is there" is_all_there
without 1
check "typed once more, it is done already" sh -c "$admin drives replace 1 '$D4' | grep 'the old one is gone'"

# ---- a lost one -------------------------------------------------------------------------------------------

check "a clean stop" stop
rm "$DIR/d2"
check "drive 2 is missing: it starts" start
[ -n "$DAEMON" ] && kill -0 "$DAEMON" || finish
check "a new drive for it" replace 2 "$D5"
grep -q "drive 2, which is lost, may be removed" "$DIR/then" && ok "it says what to do" || not_ok "it says what to do" "$(cat "$DIR/then")"
without 2
check "the new one is drive 5" until_is serving "{d['number']: d['state'] for d in s['drives']}.get(5)"
check "the lost one leaves" until_gone 2
check "all is there" is_all_there

# ---- room for a rebuild ------------------------------------------------------------------------------------

check "files are removed" ctl rm /fill-1 /fill-2
free=$(field "s['store']['free_bytes']")
sed -i 's/^spare_drives.*/spare_drives = auto/' "$CONF"
kill -HUP "$DAEMON"
check "with a spare drive less is free" until_is True "s['store']['free_bytes'] < $free - (16 << 20)"
fill() { # until it is full
	i=0
	head -c 3000000 "$DIR/fill" >"$DIR/piece"
	while ctl -q put "$DIR/piece" "/more-$i" 2>"$DIR/full"; do
		i=$((i + 1))
		[ $i -lt 60 ] || return 1
	done
	grep -q "No space left" "$DIR/full"
}
check "puts are answered with ENOSPC" fill
check "deleting works" ctl rm /more-0
check "a clean stop" stop
mv "$DIR/d3" "$DIR/away"
check "a drive of the full store is missing: it starts" start
check "what it had fits on the others" until_gone 3
check "all is there" is_all_there
check "a clean stop" stop
check "check finds nothing" "$BIN/wekactl" -f "$CONF" check
finish

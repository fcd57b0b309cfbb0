#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# A drive is drained while a loader writes, reads and removes: kills in the midst of it, it is taken out
# by itself, the appliance serves and starts without it, and every byte is there.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

D0=file:$DIR/d0?size=256M D1=file:$DIR/d1?size=256M D2=file:$DIR/d2?size=256M
CACHE=16M
: "${APP_CORES:=2}"
write_conf "$D0" "$D1" "$D2"
make_tree "$DIR/src" 500
check "format" "$BIN/wekactl" format --protect none "$D0" "$D1" "$D2"
check "start" start
check "import" ctl -q import "$DIR/src" /tree

# Somebody who writes, reads and removes all the time; what he was told and still has is in a list.
load() {
	i=0
	while [ ! -f "$DIR/enough" ]; do
		i=$((i + 1))
		head -c $((i * 7919 % 300000)) "$DIR/src/size-9000001" >"$DIR/load"
		ctl put "$DIR/load" "/load-$1-$i" || break
		ctl cat "/load-$1-$i" | cmp - "$DIR/load" || break
		[ $((i % 3)) -gt 0 ] || { ctl rm "/load-$1-$i" || break; continue; }
		echo "/load-$1-$i $(sha256sum <"$DIR/load")" >>"$DIR/told.$1"
	done
	[ -f "$DIR/enough" ]
}
admin="$BIN/wekactl --connect $SHM --key $DIR/key"
state() { # DRIVE: as the appliance has it
	ctl --json status | tr '{' '\n' | grep "\"name\":\"$1\"" | sed 's/.*"state":"\([a-z]*\)".*/\1/'
}

refuses "a drive that the store does not have" "no drive of the store" $admin drives drain file:/nowhere
refuses "one that is not being drained stays as it is" "not being drained" $admin drives undrain "$D1"
is "all serve" "serving serving serving" "$(echo $(state "$D0") $(state "$D1") $(state "$D2"))"
check "drain" ctl -q drives drain "$D2"
is "it says so, if it is there still" draining "$(state "$D2" | grep . || echo draining)"
crash
check "start" start
# A kill may come between the end of a drain and the line about it: then the start finds what was taken out.
said "d2?size=256M: \(empty and removed from the store\|was removed from its store\)" && ok "it goes on after a kill, and is taken out" || not_ok "it goes on after a kill"
is "there are two" 2 "$(drives)"
refuses "what was taken out is none of the store's" "no drive of the store" $admin drives undrain "$D2"

load a &
loader=$!
check "drain, of the one with roots, while somebody writes" ctl -q drives drain "$D0"
refuses "the last one stays" "last drive" $admin drives drain "$D1"
check "it is taken out" said "d0?size=256M: empty and removed from the store"
is "there is one" 1 "$(drives)"
touch "$DIR/enough"
check "the loader saw nothing of it" wait $loader
check "all that was told is there" all_there
crash

check "start, with lines of drives that were taken out" start
check "which is said" said "d0?size=256M: was removed from its store and is not used"
check "a clean stop" stop
rm "$DIR/d0" "$DIR/d2"
sed -i '/drive = .*d[02]?/d' "$CONF"
check "start, without them" start
check "all that was told is there" all_there
check "export" ctl -q export /tree "$DIR/out"
check "what came out is what went in" same_trees "$DIR/src" "$DIR/out"

check "drives add, another one" "$BIN/wekactl" -q drives add "$D0"
sed -i "1a drive = $D0" "$CONF"
kill -HUP "$DAEMON"
check "it gets a number of its own" said "d0?size=256M: is drive 3 of the store now"
check "import again" ctl -q import "$DIR/src" /again
check "drain, and think again" ctl -q drives drain "$D0"
ctl drives undrain "$D0" >"$DIR/undrain" 2>&1 && undrained=yes || undrained=no
case "$undrained $(cat "$DIR/undrain")" in
yes*stays* | no*changed* | no*"no drive"*) ok "undrain" ;;
*) not_ok "undrain" "$(cat "$DIR/undrain")" ;;
esac
[ $undrained = no ] || check "drain the first one" ctl -q drives drain "$D1"
if [ $undrained = yes ]; then
	check "it is taken out" said "d1?size=256M: empty and removed from the store"
	is "there is one" 1 "$(drives)"
fi
check "all that was told is there" all_there
check "a clean stop" stop
check "check finds nothing wrong" "$BIN/wekactl" check $([ $undrained = yes ] || echo "$D1") "$D0"
refuses "what was taken out is not offered without --force" "store" "$BIN/wekactl" drives add "$D1"
finish

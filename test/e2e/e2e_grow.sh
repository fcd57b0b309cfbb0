#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Drives are added to a store that serves, one of them three times as large, while a loader reads and
# writes: they are used, files are whole, a kill loses nothing, and whoever starts it without one of
# them is told which.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

D0=file:$DIR/d0?size=128M D1=file:$DIR/d1?size=384M D2=file:$DIR/d2?size=128M
CACHE=16M
: "${APP_CORES:=2}"
ctl_alone() { "$BIN/wekactl" "$@"; }
write_conf "$D0"
make_tree "$DIR/src" 500
check "format" "$BIN/wekactl" format "$D0"
check "start" start
check "import" ctl -q import "$DIR/src" /tree

# Somebody who writes and reads all the time; what he was told is in a list.
load() {
	i=0
	while [ ! -f "$DIR/enough" ]; do
		i=$((i + 1))
		head -c $((i * 7919 % 300000)) "$DIR/src/size-9000001" >"$DIR/l.$1"
		ctl put "$DIR/l.$1" "/load-$1-$i" || break
		ctl cat "/load-$1-$i" | cmp - "$DIR/l.$1" || break
		echo "/load-$1-$i $(sha256sum <"$DIR/l.$1")" >>"$DIR/told.$1"
	done
	[ -f "$DIR/enough" ]
}

refuses "a drive that holds a file system is not taken" "holds" \
	sh -c "truncate -s 128M '$DIR/fs' && mkfs.ext4 -q '$DIR/fs' && '$BIN/wekactl' drives add 'file:$DIR/fs'"
refuses "nor is one of a store" "in use\|holds a store" "$BIN/wekactl" drives add "$D0"

load a &
loader=$!
before=$(ctl --json status | grep -o '"total_bytes":[0-9]*' | cut -d: -f2)
check "drives add" ctl_alone -q drives add "$D1"
sed -i "1a drive = $D1" "$CONF"
kill -HUP "$DAEMON"
check "the daemon adds it" said "d1.*: is drive 1 of the store now"
is "there are two" 2 "$(drives)"
after=$(ctl --json status | grep -o '"total_bytes":[0-9]*' | cut -d: -f2)
[ "$after" -gt $((3 * before)) ] && ok "the store is larger" || not_ok "the store is larger" "$before, $after"
kill -HUP "$DAEMON"
check "drives add, one that is to come with the next start" ctl_alone -q drives add "$D2"
check "import again" ctl -q import "$DIR/src" /again
touch "$DIR/enough"
check "the loader saw nothing of it" wait $loader
crash

sed -i "s|^drive = .*d0?.*|&\ndrive = $D2|" "$CONF" # before drive 1: the order is the superblocks'
check "start" start
check "the daemon adds it at its start" said "d2.*: is drive 2 of the store now"
is "there are three" 3 "$(drives)"
check "all that was told is there" all_there
check "export" ctl -q export /again "$DIR/out"
check "what came out is what went in" same_trees "$DIR/src" "$DIR/out"
check "a clean stop" stop
check "check, in any order" "$BIN/wekactl" check "$D2" "$D0" "$D1"

grep -v "drive = .*d1?" "$CONF" >"$DIR/less.conf"
refuses "a start without drive 1 names it" "d1?size=384M is missing" "$BIN/weka-appliance" --config "$DIR/less.conf"
grep -v "drive = .*d2?" "$CONF" >"$DIR/less.conf"
refuses "a start without drive 2 names it" "d2?size=128M is missing" "$BIN/weka-appliance" --config "$DIR/less.conf"
truncate -s 128M "$DIR/blank"
cp "$CONF" "$DIR/more.conf"
echo "drive = file:$DIR/blank" >>"$DIR/more.conf"
refuses "one that is not offered is refused, and what to type" "wekactl drives add" \
	"$BIN/weka-appliance" --config "$DIR/more.conf"
check "start" start
echo "drive = file:$DIR/blank" >>"$CONF"
kill -HUP "$DAEMON"
check "nor is it taken while it serves" said "blank: is not offered to a store; type: wekactl drives add"
is "there are three still" 3 "$(drives)"
check "a clean stop" stop
check "check finds nothing wrong" "$BIN/wekactl" check "$D0" "$D1" "$D2"
finish

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# kill -9 in the middle of an import, again and again: what was acknowledged is there after each
# restart, the resumed import completes, and the export equals the source.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

kills=${KILLS:-6}
[ "${TEST_LENGTH:-short}" = short ] || kills=60
D0=file:$DIR/d0?size=256M D1=file:$DIR/d1?size=256M
CACHE=16M
: "${APP_CORES:=2}"
write_conf "$D0" "$D1"
make_tree "$DIR/src" 3000
check "format" "$BIN/wekactl" format --protect none "$D0" "$D1"
check "start" start

# Puts one by one beside the import, until $DIR/enough is there; a line is written only after the answer.
witness() {
	i=0
	until [ -e "$DIR/enough" ]; do
		i=$((i + 1))
		echo "round $1 file $i" >"$DIR/w"
		ctl put "$DIR/w" "/witness-$1-$i" 2>/dev/null || return
		echo "/witness-$1-$i round $1 file $i" >>"$DIR/acknowledged"
	done
}
ctl mkdir /tree
: >"$DIR/acknowledged"
bad=0
for round in $(seq $kills); do
	# Not by ctl: $! would be a subshell of ours, and the import would go on beside the next ones.
	"$BIN/wekactl" -c "$SHM" -k "$DIR/key" -q import "$DIR/src" /tree >/dev/null 2>&1 &
	importer=$!
	witness "$round" &
	putter=$!
	sleep "0.$((round * 7 % 10))$((round * 3 % 10))"
	crash
	: >"$DIR/enough"
	kill $importer 2>/dev/null
	wait $importer 2>/dev/null
	start || { bad=1; not_ok "restart after kill $round" "$(tail -3 "$DIR/daemon.log")"; break; }
	wait $putter # its last put goes on by itself, and is acknowledged, too
	rm "$DIR/enough"
	while read -r path text; do
		[ "$(ctl cat "$path" 2>&1)" = "$text" ] && continue
		not_ok "kill $round: $path is there" "$(ctl cat "$path" 2>&1 | head -1)"
		bad=1
	done <"$DIR/acknowledged"
	# All that is remembered is looked at once; the rest of the rounds look at the new ones.
	cat "$DIR/acknowledged" >>"$DIR/all"
	: >"$DIR/acknowledged"
done
[ $bad = 0 ] && ok "$kills times killed: all $(wc -l <"$DIR/all") acknowledged puts were there"
while read -r path text; do
	[ "$(ctl cat "$path" 2>&1)" = "$text" ] || { not_ok "at the end: $path"; break; }
done <"$DIR/all"
check "the import completes" ctl -q import "$DIR/src" /tree
check "export" ctl -q export /tree "$DIR/out"
check "what came out is what went in" same_trees "$DIR/src" "$DIR/out"

# A reader with a file open that has no name any more: it is killed, then the appliance is.
free() { ctl --json status | sed -n 's/.*"free_bytes":\([0-9]*\).*/\1/p'; }
# ... of the appliance, not of a client
opens() { ctl --json status | sed -n 's/"clients":\[[^]]*\]//; s/.*"opens":\([0-9]*\).*/\1/p'; }
read_slowly() { # the first byte comes: /held is open, and then it has no name
	ctl put "$DIR/long" /held
	rm -f "$DIR/pipe" && mkfifo "$DIR/pipe"
	"$BIN/wekactl" -c "$SHM" -k "$DIR/key" cat /held >"$DIR/pipe" 2>"$DIR/cat.err" & # itself, not a subshell
	CAT=$!
	exec 7<"$DIR/pipe"
	dd bs=1 count=1 <&7 >"$DIR/long.got" 2>/dev/null
	ctl rm /held
}
freed() { for _ in $(seq 600); do [ "$(free)" -ge "$1" ] && return; sleep 0.1; done; free; return 1; }
dd if=/dev/urandom of="$DIR/long" bs=1M count=40 2>/dev/null
before=$(free)
read_slowly
kill -9 $CAT
wait $CAT 2>/dev/null
exec 7<&-
is "what a killed client had open lingers" 1 "$(opens)"
read_slowly
is "another one's beside it" 2 "$(opens)"
crash
check "a restart while files without names are open" start
cat <&7 >>"$DIR/long.got"
exec 7<&-
if wait $CAT; then
	not_ok "who has one open is told that it is gone"
else
	check "who has one open is told that it is gone" grep -qi "stale" "$DIR/cat.err"
fi
check "what it got until then is the file's" cmp -n "$(stat -c %s "$DIR/long.got")" "$DIR/long" "$DIR/long.got"
is "nobody has anything open" 0 "$(opens)"
check "and its room is there again" freed $((before - 4 * 1024 * 1024))
check "a clean stop" stop
check "check finds nothing wrong" "$BIN/wekactl" check "$D0" "$D1"
finish

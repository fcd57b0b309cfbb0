#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Drives in other processes, behind vfio-user sockets: a tree goes in, survives restarts of the
# appliance and of a server, and comes out the same.  A server that is killed in the middle costs a
# clear line and a delay, and nothing that was acknowledged.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=2}"

SERVER=$(realpath "$BUILD/release/test/tools/vfu_server")
D0=vfio-user:$DIR/s0 D1=vfio-user:$DIR/s1
S0= S1=

# serve N [OPTION...]: server N begins, in place of one that was killed; S0 or S1 is its process.
# (A killed process's last writes hold its file for as long as a busy disk takes: tried again.)
serve() {
	n=$1
	shift
	for attempt in 1 2 3 4; do
		: >"$DIR/server$n.out"
		"$SERVER" "$@" "$DIR/s$n" "file:$DIR/d$n?size=256M" >"$DIR/server$n.out" 2>>"$DIR/server.log" &
		eval "S$n=$!"
		while eval "kill -0 \$S$n 2>/dev/null"; do
			grep -q ready "$DIR/server$n.out" && return 0
			sleep 0.05
		done
	done
	echo "server $n does not start ($attempt times)"
	tail -n 1 "$DIR/server.log"
	return 1
}
kill_server() { # N
	eval "pid=\$S$1"
	kill -9 "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
}
stop_server() { # N
	eval "pid=\$S$1"
	kill -TERM "$pid"
	wait "$pid"
}
trap 'kill -9 $S0 $S1 2>/dev/null; cleanup' EXIT

write_conf "$D0" "$D1"
make_tree "$DIR/src" 200

# ---- refusals: one line each, before there is anything to lose

refuses "format: a socket that is not there" "no such socket" "$BIN/wekactl" format "vfio-user:$DIR/none"
check "a server that speaks something else" serve 0 --nonsense
refuses "format: it speaks something else" "does not speak vfio-user" "$BIN/wekactl" format "$D0"
kill_server 0
refuses "format: a socket without a server" "no server listens" "$BIN/wekactl" format "$D0"
check "a server of a device that is no drive" serve 0 --not-nvme
refuses "format: no NVMe controller" "no NVMe controller" "$BIN/wekactl" format "$D0"
stop_server 0
check "a server that takes little memory" serve 0 --dma-maps 1
refuses "format: the server takes too little memory" "too few pieces of memory" "$BIN/wekactl" format "$D0"
stop_server 0
check "a server that never answers" serve 0 --mute-after 4
refuses "format: it does not answer" "does not answer" "$BIN/wekactl" format "$D0"
stop_server 0
check "a server whose commands are short" serve 0 --mdts 4
write_conf "$D0"
echo "queue_depth = 64" >>"$CONF"
refuses "format: queue_depth is too small for them" "queue_depth = 64 is too small for drive 0 .* 64 KiB .*at least 65" \
	"$BIN/wekactl" --config "$CONF" format
sed -i 's/^queue_depth.*/queue_depth = 65/' "$CONF"
check "format: what it names is enough" "$BIN/wekactl" --config "$CONF" format
check "for the start, too" start
check "which writes long files" ctl put "$DIR/src/size-9000001" /long
check "and reads them" sh -c "'$BIN/wekactl' --connect '$SHM' --key '$DIR/key' cat /long | cmp - '$DIR/src/size-9000001'"
check "stop" stop
sed -i 's/^queue_depth.*/queue_depth = 64/' "$CONF"
refuses "start: queue_depth is too small" "queue_depth = 64 is too small for drive 0 .*at least 65" "$BIN/weka-appliance" --config "$CONF"
stop_server 0
rm "$DIR/d0"
write_conf "$D0" "$D1"
mkdir "$DIR/target"
: >"$DIR/server0.out"
"$SERVER" "$DIR/target/cntrl" "file:$DIR/d0?size=256M" >"$DIR/server0.out" &
S0=$!
until grep -q ready "$DIR/server0.out" || ! kill -0 $S0; do sleep 0.05; done
check "a directory stands for the socket cntrl in it" "$BIN/wekactl" format "vfio-user:$DIR/target"
stop_server 0
rm "$DIR/d0"
check "a server for each drive" serve 0
check "another, without doorbells to map" serve 1 --no-mmap
refuses "format: a namespace that is not there" "namespace" "$BIN/wekactl" format "$D0?nsid=7"

# ---- the whole of it

check "format" "$BIN/wekactl" format --protect none "$D0" "$D1?nsid=1"
check "the appliance starts" start
check "import" ctl import "$DIR/src" /tree
check "export" ctl export /tree "$DIR/out"
check "what came out is what went in" same_trees "$DIR/src" "$DIR/out"
refuses "daemon: a server has one user" "does not answer\|connections" "$BIN/weka-appliance" --config "$CONF"
check "SIGTERM stops it" stop
check "check finds nothing wrong" "$BIN/wekactl" check "$D0" "$D1"
stop_server 0
stop_server 1
check "servers of the other kind for the same drives" serve 0 --no-mmap
check "and without interrupts" serve 1 --no-irqs
check "the appliance starts again" start
ADDRESS=$TCP
check "export over TCP" ctl export /tree "$DIR/out2"
ADDRESS=$SHM
check "the same after a restart of all, over TCP" same_trees "$DIR/src" "$DIR/out2"
check "stop" stop
stop_server 0
stop_server 1

# ---- a server is killed and started again in the middle: drives without a volatile cache

# Puts one by one; a line is written only after the answer.
witness() {
	i=0
	while [ ! -e "$DIR/enough" ]; do
		i=$((i + 1))
		echo "$1 file $i" >"$DIR/w"
		ctl put "$DIR/w" "/w/$1-$i" 2>>"$DIR/witness.err" || return
		echo "$1-$i $1 file $i" >>"$DIR/acknowledged"
	done
}
all_there() {
	rm -rf "$DIR/w.out"
	ctl -q export /w "$DIR/w.out" || return 1
	while read -r file text; do
		[ "$(cat "$DIR/w.out/$file")" = "$text" ] || { echo "$file is not there"; return 1; }
	done <"$DIR/acknowledged"
	[ -s "$DIR/acknowledged" ]
}
lines_of() { grep -c "$1" "$DIR/daemon.log"; }
await() { # TEXT COUNT: so many lines of it, within a while
	n=0
	until [ "$(lines_of "$1")" -ge "$2" ]; do
		n=$((n + 1))
		[ $n -lt 1200 ] || { tail -5 "$DIR/daemon.log"; return 1; }
		sleep 0.1
	done
}
freeze() { # both servers stand still when it returns: the signal reaches their threads a moment later
	kill -STOP "$S0" "$S1"
	for pid in "$S0" "$S1"; do
		until ! sed 's/.*) \(.\).*/\1/' "/proc/$pid/task"/*/stat | grep -qv T; do sleep 0.01; done
	done
}

make_tree "$DIR/more" 800
: >"$DIR/acknowledged"
check "a server that writes through" serve 0 --write-through
check "another" serve 1 --write-through
check "the appliance starts on them" start
check "a directory for what is put one by one" ctl mkdir /w
: >"$DIR/daemon.log"
witness through &
putter=$!
ctl -q import "$DIR/more" /more >"$DIR/import.out" 2>&1 &
importer=$!
back=0
for killed in 0 1 0; do
	sleep 0.4
	kill_server $killed
	sleep 0.2
	serve $killed --write-through || not_ok "server $killed comes back"
	back=$((back + 1)) # a kill in the middle of a reset is not noticed in words of its own
	await 'back after a reset' $back >"$DIR/await" || not_ok "drive $killed comes back" "$(cat "$DIR/await")"
done
wait $importer
check "the import goes through three kills" test $? = 0
touch "$DIR/enough"
wait $putter
check "each was noticed in words" test "$(lines_of 'its server has left: reset')" -ge 3
check "and each drive came back" test "$(lines_of 'back after a reset')" -ge 3
check "what was acknowledged is there" all_there
check "export" ctl -q export /more "$DIR/out3"
check "what came out is what went in, kills or not" same_trees "$DIR/more" "$DIR/out3"
check "stop" stop
check "check" "$BIN/wekactl" check "$D0" "$D1"
stop_server 0
stop_server 1

# ---- the same with a volatile cache: idle, all of it was flushed, and a restart costs nothing

rm "$DIR/enough"
check "a server with a cache" serve 0
check "another" serve 1
check "the appliance starts on these" start
: >"$DIR/daemon.log"
witness cached &
putter=$!
until [ "$(grep -c cached "$DIR/acknowledged")" -ge 3 ]; do sleep 0.05; done
touch "$DIR/enough"
wait $putter
check "and then nothing is written" quiet
kill_server 0
kill_server 1
serve 0 || not_ok "server 0 comes back"
serve 1 || not_ok "server 1 comes back"
check "both drives come back" await 'back after a reset' 2
is "neither has lost anything" 0 "$(lines_of 'may be lost')"
echo again >"$DIR/w"
check "and they take writes" ctl put "$DIR/w" /again
check "what was acknowledged is there" all_there
check "stop" stop
check "check" "$BIN/wekactl" check "$D0" "$D1"

# ---- a server that is slow, with changes and reads under way, and with nothing: it costs a delay

write_conf "$D0" "$D1"
check "start, and the default drive_timeout" start
rm -f "$DIR/enough"
witness slow &
putter=$!
for n in 1 2; do
	sleep 0.5
	freeze
	(sleep 0.6; kill -CONT "$S0" "$S1") &
	later=$!
	check "reads wait for it" ctl -q export /tree "$DIR/slow.$n"
	wait $later
done
touch "$DIR/enough"
check "and so do changes" wait $putter
check "to the byte" same_trees "$DIR/src" "$DIR/slow.2"
kill -STOP "$S0" "$S1"
sleep 0.6
kill -CONT "$S0" "$S1"
check "what was acknowledged is there" all_there

# ---- clients that connect while a server takes 2.5 s: it also answers late that their memory is mapped

echo second >"$DIR/w.second"
check "a file that the second client will read" ctl put "$DIR/w.second" /w.second
: >"$DIR/daemon.log"
rm -f "$DIR/enough"
witness late &
putter=$!
sleep 0.3
freeze
# The change that is under way may have been acknowledged already; the next one has not begun.
next=$(($(grep -c '^late-' "$DIR/acknowledged") + 2))
ctl cat /w.second >"$DIR/second" 2>"$DIR/second.err" &
second=$!
ctl put "$DIR/w.second" /w.third 2>"$DIR/third.err" &
third=$!
sleep 2.5
is "no change is acknowledged meanwhile" 0 "$(grep -c "^late-$next " "$DIR/acknowledged")"
kill -CONT "$S0" "$S1"
check "the second client is let in, and reads" wait $second
check "what it wants" cmp "$DIR/w.second" "$DIR/second"
check "the third is let in, and writes" wait $third
is "what it wants" second "$(ctl cat /w.third)"
touch "$DIR/enough"
check "the first one's changes go on" wait $putter
is "no drive was reset, taken for away, or takes no more changes" 0 \
	"$(lines_of 'read-only\|away\|reset\|started anew\|no more changes')"
check "what was acknowledged is there" all_there
check "stop" stop

# ---- a server that stays away: its files fail, the appliance lives; back, it is used again

write_conf "$D0" "$D1"
echo "drive_timeout = 5s" >>"$CONF"
check "start" start
: >"$DIR/daemon.log"
kill_server 1
check "a drive that stays away is said to be" await "$D1.*away: I/Os to it fail" 1
ctl --json status >"$DIR/status"
check "the appliance lives, and says that one drive is away" \
	[ "$(grep -o '"health":"away"' "$DIR/status" | wc -l)" = 1 ]
check "the server is back" serve 1
check "and so is the drive, without a restart" await "$D1.*back after a reset" 1
check "what was acknowledged is there" all_there
check "and it takes writes" ctl put "$DIR/w" /w/back

# Drive 1 gets a file's content.  It is on the disk before a server has it: servers write past the page
# cache, and the kernel may be unable to drop pages that are still to be written.
becomes() {
	cp --sparse=always "$1" "$DIR/d1"
	sync "$DIR/d1"
}

# ---- emptied behind its server's back: the serial number is the same, the drive is not believed

: >"$DIR/daemon.log"
kill_server 1
cp --sparse=always "$DIR/d1" "$DIR/d1.kept"
truncate -s 0 "$DIR/d1"
truncate -s 256M "$DIR/d1"
check "a server of the emptied drive" serve 1
check "it is not believed" await "$D1.*its content has changed" 1
is "and not used" 0 "$(lines_of "$D1.*back after a reset")"
kill_server 1
becomes "$DIR/d1.kept"
check "a server of what was there before" serve 1
check "is believed, without a restart" await "$D1.*back after a reset" 1
check "what was acknowledged is there" all_there

# ---- an older copy of the drive: same serial number, same superblocks, one change of the log less

: >"$DIR/daemon.log"
check "nothing is being written" quiet
cp --sparse=always "$DIR/d1" "$DIR/d1.older"
check "a change" ctl put "$DIR/w" /w/after-the-copy
kill_server 1
cp --sparse=always "$DIR/d1" "$DIR/d1.kept"
becomes "$DIR/d1.older"
check "a server of the copy" serve 1
check "it is not believed, in words" await "$D1.*does not come back: it is an older copy of itself" 1
is "and not used" 0 "$(lines_of "$D1.*back after a reset")"
kill_server 1
becomes "$DIR/d1.kept"
check "a server of the newest one" serve 1
check "is believed, without a restart" await "$D1.*back after a reset" 1
ctl cat /w/after-the-copy >"$DIR/one"
check "the change is there" cmp "$DIR/w" "$DIR/one"
check "what was acknowledged is there" all_there

# ---- another drive in its place, of the same size

: >"$DIR/daemon.log"
kill_server 1
mv "$DIR/d1" "$DIR/d1.kept"
check "a server of another drive" serve 1
check "it is not believed, in words" await "$D1.*does not come back: .*another drive" 1
is "and not used" 0 "$(lines_of "$D1.*back after a reset")"
is "nor written to" "$(head -c 256M /dev/zero | sha256sum)" "$(sha256sum <"$DIR/d1")"
kill_server 1
mv "$DIR/d1.kept" "$DIR/d1"
check "a server of the right one" serve 1
check "is believed, without a restart" await "$D1.*back after a reset" 1
check "what was acknowledged is there" all_there
check "stop" stop
check "check" "$BIN/wekactl" check "$D0" "$D1"

# ---- a server that does not go on for a minute, under reads and writes: six times drive_timeout

[ "${TEST_LENGTH:-short}" != short ] || finish
write_conf "$D0" "$D1"
check "start, and the default drive_timeout" start
: >"$DIR/daemon.log"
rm -f "$DIR/enough"
witness hung &
putter=$!
until [ "$(grep -c hung "$DIR/acknowledged")" -ge 3 ]; do sleep 0.05; done
check "all is read once: the index is in memory" ctl -q export /tree "$DIR/warm"
: >"$DIR/wrong"
kill -STOP "$S1"
# Reads of all files in turn: what does not lie on that drive is read, each within its time.
: >"$DIR/read"
end=$(($(date +%s) + 60))
while [ "$(date +%s)" -lt $end ]; do
	for i in 1 2 3 4 5 6 7 8; do
		timeout 20 "$BIN/wekactl" --connect "$SHM" --key "$DIR/key" cat "/tree/sub/file $i" >"$DIR/one" 2>/dev/null &&
			cmp "$DIR/one" "$DIR/src/sub/file $i" >>"$DIR/wrong" 2>&1 && echo "$i" >>"$DIR/read"
	done
	sleep 1
done
check "the appliance lives" kill -0 "$DAEMON"
check "the log says that the server does not answer" await "$D1.*does not answer\|$D1.*away" 1
check "files of the other drive were read meanwhile" test -s "$DIR/read"
is "and none was wrong" "" "$(cat "$DIR/wrong")"
kill -CONT "$S1"
check "the drive is used again, without a restart" await "$D1.*back after a reset" 1
count=$(grep -c hung "$DIR/acknowledged")
goes_on() { # puts, within 60 s
	n=0
	until [ "$(grep -c hung "$DIR/acknowledged")" -gt $((count + 2)) ] || [ $n -gt 600 ]; do
		n=$((n + 1))
		kill -0 $putter 2>/dev/null || { witness hung & putter=$!; } # one was refused meanwhile: that is an answer
		sleep 0.1
	done
	[ $n -le 600 ] || { tail -5 "$DIR/daemon.log" "$DIR/witness.err"; return 1; }
}
check "and takes changes" goes_on
touch "$DIR/enough"
wait $putter
check "what was acknowledged is there" all_there
check "the tree is as it was" ctl export /tree "$DIR/out4"
check "to the byte" same_trees "$DIR/src" "$DIR/out4"
check "stop" stop
check "check" "$BIN/wekactl" check "$D0" "$D1"
finish

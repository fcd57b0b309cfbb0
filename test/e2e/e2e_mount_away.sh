#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# An appliance that is killed, stopped and started again under a mount: programs that are busy go on
# where they were; without an appliance each call ends with an error, and umount works.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh && . test/e2e/mount_lib.sh
: "${APP_CORES:=2}"
need_fuse
case ${TEST_LENGTH:-short} in
short) KILLS=2 PROCESSES=4 STOPPED=2 AWAY="shm-killed tcp-stopped" ;;
*) KILLS=12 PROCESSES=8 STOPPED=60 AWAY="shm-killed tcp-stopped tcp-killed shm-stopped" ;;
esac

D0=file:$DIR/d0?size=1G
write_conf "$D0"
"$BIN/wekactl" format "$D0" >/dev/null || exit 1
check "the appliance starts" start

# ---- busy programs ----
check "it is mounted over shared memory" mount_at "$MNT" timeout=200
MOUNT_ADDRESS=$TCP
check "and over tcp, at another place" mount_at "$MNT-2" timeout=200
mkdir "$MNT/shm" "$MNT/tcp"
python3 test/e2e/mount_busy.py "$MNT/shm" "$DIR/stop" $((PROCESSES / 2)) >"$DIR/busy.1" 2>&1 &
BUSY1=$!
python3 test/e2e/mount_busy.py "$MNT-2/tcp" "$DIR/stop" $((PROCESSES / 2)) >"$DIR/busy.2" 2>&1 &
BUSY2=$!
killed=0
while [ $killed -lt $KILLS ]; do
	killed=$((killed + 1))
	sleep 1
	crash
	start || not_ok "it starts again"
done
ok "the appliance was killed and started again $killed times"
kill -STOP "$DAEMON"
sleep $STOPPED
kill -CONT "$DAEMON"
sleep 1
touch "$DIR/stop"
wait $BUSY1
is "no program over shared memory saw an error or a wrong byte" "0 " "$? $(grep -v ' turns, ' "$DIR/busy.1")"
wait $BUSY2
is "nor one over tcp" "0 " "$? $(grep -v ' turns, ' "$DIR/busy.2")"
check "the mounts are empty again" rmdir "$MNT/shm/"* "$MNT/tcp/"* "$MNT/shm" "$MNT/tcp"
check "they go" umount "$MNT" "$MNT-2"
check "and their programs end" gone

# ---- no appliance ----
ends() { # WORDS COMMAND...: it fails, soon, with these words
	words=$1
	shift
	err=$(timeout 40 "$@" 2>&1 >/dev/null)
	code=$?
	[ $code != 124 ] && [ $code != 0 ] && printf '%s' "$err" | grep -q "$words" && return
	echo "$code: $err"
	return 1
}
for how in $AWAY; do
	away=${how#*-}
	case $how in shm-*) MOUNT_ADDRESS=$SHM ;; *) MOUNT_ADDRESS=$TCP ;; esac
	check "$how: mounted, with a deadline of 1 s" mount_at "$MNT" timeout=1
	echo held >"$MNT/held"
	mkdir -p "$MNT/dir"
	if [ "$away" = killed ]; then crash; else kill -STOP "$DAEMON"; fi
	check "$how: a read ends" ends "Input/output error" cat "$MNT/held"
	check "$how: a write ends" ends "Input/output error" sh -c "echo more >'$MNT/more'"
	check "$how: a listing ends" ends "Input/output error" ls "$MNT/dir"
	check "$how: the root is still there" timeout 40 test -d "$MNT"
	if [ "$away" = killed ]; then start || not_ok "it starts again"; else kill -CONT "$DAEMON"; fi
	n=0
	until [ "$(cat "$MNT/held" 2>/dev/null)" = held ] || [ $n -gt 100 ]; do n=$((n + 1)); sleep 0.1; done
	is "$how: when it is back, all is there" held "$(cat "$MNT/held")"
	kill -STOP "$DAEMON"
	check "$how: it is unmounted without an appliance" timeout 60 umount "$MNT"
	kill -CONT "$DAEMON"
	check "$how: and its program ends" gone
done

check "mounted, with a long deadline" mount_at "$MNT" timeout=1000
kill -STOP "$DAEMON"
cat "$MNT/held" >/dev/null 2>&1 &
sleep 0.2
kill -9 $!
wait $! 2>/dev/null
is "a program that waits can be killed" 137 $?
kill -CONT "$DAEMON"
check "unmounted" umount "$MNT"
check "and its program ends" gone

# ---- no weka-mount ----
check "mounted" mount_at "$MNT"
sleep 100 <"$MNT/held" &
SLEEP=$!
until [ "$(readlink /proc/$SLEEP/fd/0)" = "$MNT/held" ]; do sleep 0.05; done
kill -9 "$(mount_pid)"
check "killed: its process is gone" gone
check "killed: a call ends" ends "not connected\|connection abort" cat "$MNT/held"
check "it is unmounted, though a program has a file open" umount -l "$MNT"
kill $SLEEP
check "mounted again" mount_at "$MNT"
kill -9 "$(mount_pid)"
check "killed once more: its process is gone" gone
check "another one takes its place" "$BIN/weka-mount" -o "key=$DIR/key" "$MOUNT_ADDRESS" "$MNT"
is "which is one mount" 1 "$(grep -c " $MNT " /proc/mounts)"
is "and all is there" held "$(cat "$MNT/held")"
check "ended by a signal" kill -TERM "$(mount_pid)"
check "it unmounts itself" gone
is "and nothing is left" "" "$(grep "$MNT" /proc/mounts)"
check "the appliance stops" stop
check "and the store is whole" "$BIN/wekactl" --config "$CONF" check
finish

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# An appliance that is killed, stopped and started again under programs with libweka-preload.so: over a
# mount they read and write, without one they only read; none sees an error or a wrong byte.  Then calls
# one by one, as on a mount: mount_cases.py.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh && . test/e2e/mount_lib.sh && . test/e2e/preload_lib.sh
: "${APP_CORES:=2}"
case ${TEST_LENGTH:-short} in
short) KILLS=2 PROCESSES=2 STOPPED=2 EVERY=40 LEAST=150 ;;
*) KILLS=12 PROCESSES=4 STOPPED=20 EVERY=2 LEAST=3000 ;;
esac

D0=file:$DIR/d0?size=1G
write_conf "$D0"
"$BIN/wekactl" format "$D0" >/dev/null || exit 1
check "the appliance starts" start
mkdir "$DIR/local" && make_tree "$DIR/local/t" 20
check "a tree is imported" ctl import "$DIR/local" /
has_fuse=$([ "$(id -u)" != 0 ] || ! (exec 3<>/dev/fuse) 2>/dev/null || echo yes)
if [ "$has_fuse" ]; then
	check "it is mounted" mount_at "$MNT" timeout=200,allow_other
	mkdir "$MNT/busy"
	AT=$MNT
	served python3 test/e2e/mount_busy.py "$MNT/busy" "$DIR/stop" $PROCESSES >"$DIR/busy.1" 2>&1 &
	BUSY1=$!
	served python3 test/e2e/preload_python.py "$MNT/t" busy "$DIR/local/t" "$DIR/stop" $PROCESSES >"$DIR/busy.2" 2>&1 &
	BUSY2=$!
fi
AT=$NONE OPTIONS=timeout=200
served python3 test/e2e/preload_python.py "$NONE/t" busy "$DIR/local/t" "$DIR/stop" $PROCESSES >"$DIR/busy.3" 2>&1 &
BUSY3=$!
PRELOAD_ADDRESS=$TCP
served python3 test/e2e/preload_python.py "$NONE/t" busy "$DIR/local/t" "$DIR/stop" $PROCESSES >"$DIR/busy.4" 2>&1 &
BUSY4=$!
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
sleep 2
touch "$DIR/stop"
if [ "$has_fuse" ]; then
	wait $BUSY1
	is "over a mount, programs that write and read go on" "0 " "$? $(grep -v ' turns, ' "$DIR/busy.1")"
	wait $BUSY2
	is "and those that only read" "0 " "$? $(cat "$DIR/busy.2")"
fi
wait $BUSY3
is "without a mount, too" "0 " "$? $(cat "$DIR/busy.3")"
wait $BUSY4
is "and over tcp" "0 " "$? $(cat "$DIR/busy.4")"
[ "$has_fuse" ] || { check "the appliance stops" stop; finish; }

# ---- call by call, as root and as another user ----
AT=$MNT OPTIONS=
if command -v setpriv >/dev/null; then
	chmod 755 "$DIR" && chmod 777 "$DIR/weka.sock" && cp "$DIR/key" "$DIR/user.key" && chown 65534 "$DIR/user.key"
	mkdir "$MNT/cases" "$DIR/cases"
	OPTIONS=key=$DIR/user.key
	check "cases have the errors of the list" served python3 test/e2e/mount_cases.py "$MNT/cases" "$DIR/cases" \
		test/e2e/mount_cases.list $EVERY 2
	count=$(sed -n 's/ cases, .*//p' "$DIR/check.out")
	check "they were ${count:-0}" [ "${count:-0}" -ge $LEAST ]
	OPTIONS=
fi

# ---- a directory is open while it is away ----
served python3 -c 'import os, sys, time
entries = os.scandir(sys.argv[1])
open(sys.argv[2] + ".opened", "w").close()
while not os.path.exists(sys.argv[2] + ".away"):
    time.sleep(0.02)
print(*sorted(e.name for e in entries), sep="\n")' "$MNT/t" "$DIR/listing" >"$DIR/listing" 2>&1 &
lister=$!
until [ -e "$DIR/listing.opened" ] || ! kill -0 $lister 2>/dev/null; do sleep 0.05; done
crash
touch "$DIR/listing.away"
sleep 3 # longer than a call waits before it goes to the mount
check "the appliance starts again" start
wait $lister
is "its names come when the appliance is back" "$(ls -A "$DIR/local/t" | LC_ALL=C sort)" "$(LC_ALL=C sort "$DIR/listing")"

# ---- the mount goes away, and comes back ----
check "it is unmounted" umount "$MNT"
check "and its program ends" gone
is "reading goes on without it" "$(sha256sum <"$DIR/local/t/size-4096")" "$(served cat "$MNT/t/size-4096" | sha256sum)"
check "the appliance stops" stop
finish

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# wekactl doctor finds problems that were set up on purpose on this machine, and the commands that it
# names correct them.  test_ctl_doctor.c tries problems that need another machine.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=1}"

D0=file:$DIR/d0?size=64M D1=file:$DIR/d1?size=64M OTHER=file:$DIR/other?size=64M
doctor() { "$BIN/wekactl" --config "$CONF" doctor >"$DIR/doctor"; }
finds() { # NAME CHECK TEXT FIX: a line about it, and below it what to type
	doctor
	line=$(grep -A 1 "^WRONG  $2 .*$3" "$DIR/doctor")
	if printf '%s' "$line" | tail -n 1 | grep -q "type: .*$4"; then ok "$1"; else
		not_ok "$1" "$(grep -A 1 '^WRONG' "$DIR/doctor")"; fi
}
fine() { # NAME CHECK: nothing is wrong with it
	doctor
	check "$1" sh -c "! grep -q '^WRONG  $2 ' '$DIR/doctor'"
}
typed() { sed -n "/^WRONG  $1 /{n;s/^ *type: //;s/  *#.*//;p}" "$DIR/doctor"; }

write_conf "$D0" "$D1"
check "format" "$BIN/wekactl" format --protect none "$D0" "$D1"
check "format another store" "$BIN/wekactl" format --protect none "$OTHER"
fine "drives of one store" store
fine "a free port" port
fine "a key that is its owner's" permissions

chmod 644 "$DIR/key"
finds "a key that others may read" permissions "$DIR/key: mode 644" "chmod go= $DIR/key"
check "what it says is typed" sh -c "$(typed permissions)"
fine "and corrects it" permissions

sed -i "s|^drive = $D1\$|drive = $OTHER|" "$CONF"
finds "a drive of another machine's store" store "other.* is of another store than .*d0" "sed -i .*other.*wekactl drives add --force '$OTHER'"
check "what it says is typed" sh -c "$(typed store | head -n 1)"
finds "then a drive of the store is not there" store "has 2 drives, and the configuration 1 of them: drive 1 (.*d1.*) not there" "wekactl drives .*$CONF"
sed -i "s|^drive = $D0\$|&\ndrive = $D1|" "$CONF"
fine "with its line all is well" store

python3 -c "import socket, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('127.0.0.1', $PORT)); s.listen(); print('there', flush=True); time.sleep(600)" >"$DIR/taker" &
taker=$!
n=0; until grep -q there "$DIR/taker" || [ $n = 2400 ]; do sleep 0.05; n=$((n + 1)); done
finds "a port that another program has" port "listen = $TCP: taken by python3.*, process $taker" "systemctl status $taker"
kill $taker
wait $taker 2>/dev/null
check "start" start
doctor
check "the appliance itself may have it" grep -q "^ok  *port  *listen = $TCP: served by the appliance" "$DIR/doctor"
check "stop" stop

if [ -z "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
	echo "listen = rdma://127.0.0.1:$((PORT + 1))" >>"$CONF"
	finds "no RDMA device" rdma "no RDMA device" "apt install rdma-core"
fi
finish

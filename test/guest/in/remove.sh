# SPDX-License-Identifier: BSD-2-Clause-Patent
# shellcheck shell=sh
# A drive is taken away under load, by the host, when /out/running is there.
. test/e2e/lib.sh

GONE=0000:01:00.0
write_conf pci:0000:00:04.0 pci:$GONE
check "format" wekactl format pci:0000:00:04.0 pci:$GONE
check "the appliance starts" start
check "import" ctl -q import /out/src /tree
weka-bench epoch --connect "$SHM" --key "$DIR/key" --tree /out/src --prefix /tree --epochs 100000 >"$DIR/load" 2>&1 &
load=$!
sleep 1
touch /out/running

n=0
while [ -e /sys/bus/pci/devices/$GONE ] && [ $n -lt 300 ]; do n=$((n + 1)); usleep 50000; done
read -r gone rest </proc/uptime
check "the device is gone" [ ! -e /sys/bus/pci/devices/$GONE ]
dmesg | tail -n 5
asked=$(dmesg | sed -n 's/^\[ *\([0-9.]*\)\].*Relaying device request to user.*/\1/p' | head -n 1)
check "the kernel asked for it" [ -n "$asked" ]
echo "# asked at ${asked:-?} s, gone at $gone s"
check "it was given back within a second" awk "BEGIN { exit !($gone - ${asked:-0} < 1) }"
wait $load
check "the load ended with an error that is one" grep -qi "input/output error\|no such device" "$DIR/load"
check "the appliance lives" kill -0 "$DAEMON"
check "and answers" ctl status
same=0 failed=0 wrong=0
for f in 'file 1' 'file 2' 'file 3' 'file 4' 'file 5' 'file 6' 'file 7' 'file 8' 'file 9' 'file 10' 'file 11' 'file 12'; do
	if ctl cat "/tree/sub/$f" >"$DIR/got" 2>"$DIR/why"; then
		if cmp -s "$DIR/got" "/out/src/sub/$f"; then same=$((same + 1)); else wrong=$((wrong + 1)); fi
	else
		failed=$((failed + 1))
	fi
done
echo "# of 12 files $same are the same, $failed fail: $(cat "$DIR/why")"
check "no file has other bytes" [ $wrong = 0 ]
check "what lies on the other drive is served" [ $same -gt 0 ]
tail -n 5 "$DIR/daemon.log"
kill -TERM $DAEMON
wait $DAEMON
check "it stops" [ $? -lt 128 ]
DAEMON=
finish

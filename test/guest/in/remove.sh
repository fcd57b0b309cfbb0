# SPDX-License-Identifier: BSD-2-Clause-Patent
# shellcheck shell=sh
# A drive is taken away under load, by the host, when /out/running is there.
. test/e2e/lib.sh

GONE=0000:01:00.0
write_conf pci:0000:00:04.0 pci:$GONE
check "format" wekactl format --protect none pci:0000:00:04.0 pci:$GONE
check "the appliance starts" start
check "import" ctl -q import /out/src /tree
weka-bench epoch --connect "$SHM" --key "$DIR/key" --tree /out/src --prefix /tree --epochs 99 >"$DIR/load" 2>&1 &
load=$!
sleep 1
touch /out/running

n=0
back=
while [ -e /sys/bus/pci/devices/$GONE ] && [ $n -lt 200 ]; do
	n=$((n + 1))
	if [ -z "$back" ] && grep -q "handed back" "$DIR/daemon.log"; then read -r back rest </proc/uptime; fi
	usleep 50000
done
read -r gone rest </proc/uptime
check "the device is gone" [ ! -e /sys/bus/pci/devices/$GONE ]
asked=$(dmesg | sed -n 's/^\[ *\([0-9.]*\)\].*Relaying device request to user.*/\1/p' | head -n 1)
check "the kernel asked for it" [ -n "$asked" ]
echo "# asked at ${asked:-?} s, handed back at ${back:-?} s, gone at $gone s"
check "it was given back within a second" awk "BEGIN { exit !($gone - ${asked:-0} < 1) }"
wait $load
check "the load ended with an error that is one" grep -qi "input/output error\|no such device" "$DIR/load"
check "the appliance lives" kill -0 "$DAEMON"
check "and answers" ctl status
same=0 failed=0 wrong=0
for f in size-1 size-4097 size-65536 size-524289 size-1048577 size-4194305 size-9000001 'sub/file 1' 'sub/file 9'; do
	if ctl cat "/tree/$f" >"$DIR/got" 2>"$DIR/why"; then
		if cmp -s "$DIR/got" "/out/src/$f"; then same=$((same + 1)); else wrong=$((wrong + 1)); fi
	else
		failed=$((failed + 1))
		why=$(cat "$DIR/why")
	fi
done
echo "# $same files are the same, $failed fail: ${why:-}"
check "no file has other bytes" [ $wrong = 0 ]
check "what lies on the other drive is served" [ $same -gt 0 ]
# Both drives held the log: it goes on with the copy on the other one.
echo "put when the drive was dead" >"$DIR/new"
check "a small file is put" ctl put "$DIR/new" /new
check "and read at once" sh -c "'$BIN/wekactl' --connect '$SHM' --key '$DIR/key' cat /new | cmp - '$DIR/new'"
check "the log says why" grep -q "is dead: the log goes on with its copy on another drive" "$DIR/daemon.log"
check "so does the status" sh -c "'$BIN/wekactl' --connect '$SHM' --key '$DIR/key' --json status | grep '\"log_copies\":1'"
kill -TERM $DAEMON
wait $DAEMON
check "it stops" [ $? -lt 128 ]
DAEMON=
finish

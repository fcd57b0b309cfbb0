#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Bad input: a clear line, a non-zero exit, nothing changed.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=2}"

D0=file:$DIR/d0?size=128M
CTL=$BIN/wekactl
APP=$BIN/weka-appliance
write_conf "$D0"

refuses "format: unknown drive scheme" "scheme\|kind of drive" "$CTL" format "floppy:/dev/fd0"
refuses "format: a drive too small is named" "tiny.*smaller than 2 MiB" "$CTL" format "file:$DIR/tiny?size=64K"
refuses "bench: more in flight than a drive's queues hold" "mem:64M: its queues have 1024 entries, .*--depth is at most 127" \
	"$BIN/weka-bench" nvme --drive mem:64M --depth 256 --size 1M --seconds 1 --runs 1
truncate -s 64M "$DIR/other"
if command -v mkfs.ext4 >/dev/null; then
	mkfs.ext4 -q "$DIR/other"
	sum=$(sha256sum <"$DIR/other")
	refuses "format: another file system's signature" "ext" "$CTL" format "file:$DIR/other"
	if [ "$(sha256sum <"$DIR/other")" = "$sum" ]; then ok "and it was not touched"; else not_ok "and it was not touched"; fi
	check "format --force takes it" "$CTL" --force format "file:$DIR/other"
fi
refuses "daemon: a drive that is not there" "no such file" "$APP" --config "$CONF"
check "format" "$CTL" format "$D0"
refuses "format: it holds a store already" "force" "$CTL" format "$D0"
check "start" start
refuses "daemon: drive in use" "in use\|another" "$APP" --config "$CONF"
refuses "format: drive in use" "in use\|another" "$CTL" --force format "$D0"
sed "s|^drive.*|drive = mem:64M|" "$CONF" >"$DIR/second.conf"
refuses "daemon: a port in use" "in use" "$APP" --config "$DIR/second.conf"
sed "s|^cache.*|cache = 7 parsecs|" "$CONF" >"$DIR/bad.conf"
refuses "daemon: a bad value names file, line and key" "bad.conf:[0-9]*:.*cache" "$APP" --config "$DIR/bad.conf"
sed "s|^cache.*|&\nmemory_max = 96M|" "$CONF" >"$DIR/tight.conf"
# pools_max, and what is kept for two operators.
refuses "daemon: limits that come to more memory than it may have" \
	"tight.conf:[0-9]*: memory_max: less than [0-9]* MiB.*: cache [0-9]*, staging $((64 * APP_CORES)), sessions (sessions_max, long_bodies, credits) [0-9]*, pools (pools_max) 4104" \
	"$APP" --check-config --config "$DIR/tight.conf"
echo "cahce = 64M" >"$DIR/typo.conf"
refuses "daemon: an unknown key" "typo.conf:1:.*cahce" "$APP" --config "$DIR/typo.conf"

refuses "client: wrong key" "key" "$CTL" -c "$SHM" -k /dev/stdin ls /
(umask 077; echo "$(printf '%064d' 1)" >"$DIR/wrong")
refuses "client: a wrong secret" "key" "$CTL" -c "$SHM" -k "$DIR/wrong" ls /
refuses "client: a wrong secret over TCP" "key" "$CTL" -c "$TCP" -k "$DIR/wrong" ls /
refuses "client: nobody listens" "refused\|connect" "$CTL" -c "tcp://127.0.0.1:1" -k "$DIR/key" ls /
refuses "client: no such file" "no such file" "$CTL" -c "$SHM" -k "$DIR/key" cat /nothing
name=$(printf '%0256d' 1)
echo x >"$DIR/x"
refuses "client: a name of 256 bytes" "too long" "$CTL" -c "$SHM" -k "$DIR/key" put "$DIR/x" "/$name"
refuses "client: unknown command" "not a command" "$CTL" frobnicate

# A peer that speaks another protocol, and one that sends half a capsule: others go on.
(printf 'GET / HTTP/1.0\r\n\r\n'; sleep 0.3) | timeout 5 bash -c "exec 3<>/dev/tcp/127.0.0.1/$PORT; cat >&3; cat <&3 >/dev/null" 2>/dev/null
head -c 100000 /dev/urandom | timeout 5 bash -c "exec 3<>/dev/tcp/127.0.0.1/$PORT; cat >&3" 2>/dev/null
check "a foreign protocol on the port disturbs nobody" ctl ls /

mkdir "$DIR/src"
echo readable >"$DIR/src/a"
echo secret >"$DIR/src/b"
ln -s /dev/null "$DIR/src/c"
mkfifo "$DIR/src/fifo"
out=$(ctl import "$DIR/src" /imported 2>&1)
code=$?
case "$code $out" in
"1 "*fifo*"1 errors"*) ok "import: what is no file is counted and named, the rest goes on" ;;
*) not_ok "import: what is no file is counted and named, the rest goes on" "$code $out" ;;
esac
check "the rest is there" ctl cat /imported/a

# A full store answers so, still deletes, and takes new bytes again.
head -c 80000000 /dev/urandom >"$DIR/big"
full=0
for i in 1 2 3; do
	ctl put "$DIR/big" "/big$i" 2>"$DIR/full" || { full=1; break; }
done
if [ $full = 1 ] && grep -qi "space" "$DIR/full"; then ok "a full store says so"; else not_ok "a full store says so" "$(cat "$DIR/full")"; fi
check "a full store deletes" ctl rm /big1
n=0
until ctl put "$DIR/big" /again 2>/dev/null || [ $n -gt 600 ]; do
	n=$((n + 1))
	sleep 0.1
done
check "and takes new bytes again" sh -c "'$CTL' -c '$SHM' -k '$DIR/key' cat /again | cmp - '$DIR/big'"
check "stop" stop
check "check" "$CTL" check "$D0"

# A newer format is refused by name: the version is in both superblocks, under a checksum, so this
# is a matter for the unit tests; here a drive that is no store at all.
truncate -s 128M "$DIR/blank"
sed "s|^drive.*|drive = file:$DIR/blank|" "$CONF" >"$DIR/blank.conf"
refuses "daemon: a blank drive" "format" "$APP" --config "$DIR/blank.conf"
finish

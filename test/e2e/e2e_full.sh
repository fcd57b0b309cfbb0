#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# The disk under sparse drive files is full, and has room again: what is durable is read meanwhile,
# nothing is lost, and the store goes on by itself.
cd "$(dirname "$0")/../.." || exit 1
# A disk of our own: as root, or as an ordinary user who may have one.
if [ -z "${FULL_DISK:-}" ]; then
	for unshare in "unshare -m" "unshare -rm"; do
		$unshare true 2>/dev/null && exec env FULL_DISK=1 $unshare "$0"
	done
fi
. test/e2e/lib.sh
: "${APP_CORES:=2}"
DISK=$DIR/disk
mkdir "$DISK" && mount -t tmpfs -o size=48M none "$DISK" || { ok "skipped: nothing may be mounted here"; finish; }
at_exit() {
	[ -z "$DAEMON" ] || kill -9 "$DAEMON" 2>/dev/null
	umount -l "$DISK"
	cleanup
}
trap at_exit EXIT
D0=file:$DISK/d0 D1=file:$DISK/d1
truncate -s 256M "$DISK/d0" "$DISK/d1"
write_conf "$D0" "$D1"
echo "drive_timeout = 180s" >>"$CONF" # so long changes wait: longer than a busy machine needs for this

fill() { cat /dev/zero >"$DISK/filler" 2>/dev/null; [ "$(df "$DISK" | awk "NR == 2 { print \$4 }")" = 0 ]; }
says() { # TEXT: the log, within a while
	n=0
	until grep -q "$1" "$DIR/daemon.log"; do
		n=$((n + 1))
		[ $n -lt 2400 ] || { cat "$DIR/daemon.log"; return 1; }
		sleep 0.05
	done
}
same_file() { ctl cat "$1" | cmp - "$DIR/a"; }
answers() {
	n=0
	until ctl status >/dev/null 2>&1; do
		n=$((n + 1))
		[ $n -lt 2400 ] || return 1
		sleep 0.05
	done
}
reads() { [ "$(ctl ls / | LC_ALL=C sort | tr '\n' ' ')" = "$1" ]; }

check "format" "$BIN/wekactl" format --protect none "$D0" "$D1"
check "start" start
head -c 600000 /dev/urandom >"$DIR/a"
check "a file while there is room" ctl put "$DIR/a" /a
check "a directory" ctl mkdir /dir
check "another" ctl mkdir /quiet
check "with a file" ctl put "$DIR/a" /quiet/a
check "the disk is full" fill

# Until the disk is met: blocks that it has already can be written.
puts() { for i in 1 2 3 4 5 6 7 8; do ctl put "$DIR/a" "/dir/f$i" || return; done; }
puts >"$DIR/puts" 2>&1 &
PUTS=$!
check "the log says so" says "no space left"
# By the store's core and by another one: each is asked by some of them.
for i in 1 2 3 4 5; do check "a file is read meanwhile" same_file /quiet/a; done
check "and one in the root" same_file /a
check "changes wait" kill -0 $PUTS
rm "$DISK/filler"
if wait $PUTS; then ok "they go on when there is room"; else not_ok "they go on when there is room" "$(cat "$DIR/puts")"; fi
check "and the log says so" says "changes go on"
check "the root is read" reads "a dir quiet "
check "one more, without a restart" ctl put "$DIR/a" /b
for i in 1 5 8; do check "f$i is whole" same_file "/dir/f$i"; done

# For longer than the appliance waits: it begins anew, to read only.
check "stop, to wait for less" stop
write_conf "$D0" "$D1"
check "start again" start
check "the disk is full again" fill
puts >"$DIR/puts" 2>&1 &
PUTS=$!
check "it begins anew" says "to read only"
check "and answers" answers
check "the root is read while the disk is full" reads "a b dir quiet "
check "and a file" same_file /a
if wait $PUTS; then not_ok "changes are refused"; else
	check "changes are refused, and the reason said" grep -q "Read-only file system" "$DIR/puts"; fi
rm "$DISK/filler"
serves() {
	n=0
	until ctl put "$DIR/a" /c 2>"$DIR/again"; do
		n=$((n + 1))
		grep -q "Read-only\|refused\|No such file\|no answer\|(tried for" "$DIR/again" && [ $n -lt 600 ] || { cat "$DIR/again"; return 1; }
		sleep 0.2
	done
}
check "it takes changes again by itself" serves
check "the new file is whole" same_file /c
check "a clean stop" stop
check "the store is whole" "$BIN/wekactl" check "$D0" "$D1"
check "it starts again" start
check "all of it is there" reads "a b c dir quiet "
check "stop" stop
finish

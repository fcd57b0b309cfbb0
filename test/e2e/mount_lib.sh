# SPDX-License-Identifier: BSD-2-Clause-Patent
# shellcheck shell=sh
# For scripts that mount an appliance; after lib.sh.  Mounts are $DIR/mnt*, and are gone at the end.
MNT=$DIR/mnt

unmount_all() {
	for m in "$DIR"/mnt*; do
		! grep -qs " $m " /proc/mounts || umount -l "$m"
	done
}
# Before lib.sh removes $DIR, and with it everything below a mount.
cleanup() {
	unmount_all
	[ -z "$DAEMON" ] || kill -9 "$DAEMON" 2>/dev/null
	! grep -qs " $DIR/mnt" /proc/mounts || exit 1
	chmod -R u+rwX "$DIR" 2>/dev/null
	rm -rf "$DIR"
}
# need_fuse: ends the script where the kernel cannot mount.
need_fuse() {
	if [ "$(id -u)" != 0 ] || ! (exec 3<>/dev/fuse) 2>/dev/null; then
		ok "skipped: only root mounts, and with /dev/fuse"
		finish
	fi
}
# mount_at DIR [OPTIONS]: mounts the appliance there.
mount_at() {
	mkdir -p "$1" && "$BIN/weka-mount" -o "key=$DIR/key,log=$DIR/mount.log${2:+,$2}" "${MOUNT_ADDRESS:-$SHM}" "$1"
}
mounts() { pgrep -fc "weka-mount.* $DIR/mnt" || true; }
# gone: no weka-mount of this script runs any more, within a while.  One whose file system a process
# in another mount namespace still has goes on; it is ended here.
gone() {
	n=0
	until [ "$(mounts)" = 0 ]; do
		n=$((n + 1))
		[ $n -lt 1200 ] || return 1
		if [ $((n % 100)) = 0 ] && grep -qs " $DIR/mnt" /proc/[0-9]*/mounts; then
			pgrep -f "weka-mount.* $DIR/mnt" | xargs -r kill
		fi
		sleep 0.05
	done
}
# mount_pid: the process of $MNT.
mount_pid() { pgrep -f "weka-mount.* $MNT\$"; }

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# libweka-preload.so beside the mount.  The same program reads the same 4 KiB files of one appliance, in
# turn, in every round: by the mount, and with the library over it; as a loader of images does, in 1 and
# in 4 processes.
#
#   bench/preload.sh [ROUNDS [SECONDS]]      5 rounds of 1 s; as root
set -u
: "${BUILD:=build}"
cd "$(dirname "$0")/.." || exit 1
ROUNDS=${1:-5} SECONDS_EACH=${2:-1}
BIN=$(realpath "$BUILD/release/bin") SO=$(realpath "$BUILD/release/lib/libweka-preload.so")
READ=$BUILD/release/test/tools/read_folder
[ -x "$READ" ] || { echo "preload.sh: make $READ first" >&2; exit 1; }
work=$(mktemp -d) daemon=
finish() {
	umount -l "$work/mnt" 2>/dev/null
	[ -z "$daemon" ] || kill "$daemon"
	[ -z "$daemon" ] || wait "$daemon"
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

(umask 077 && od -An -tx1 -N32 /dev/urandom | tr -d ' \n' >"$work/key")
printf '%s\n' "drive = mem:${DRIVE:-1G}" "listen = shm:$work/sock" "key_file = $work/key" "core = none" >"$work/conf"
"$BIN/weka-appliance" --config "$work/conf" 2>"$work/log" &
daemon=$!
mkdir "$work/mnt" "$work/tree"
n=0
until "$BIN/weka-mount" -o "key=$work/key" "shm:$work/sock" "$work/mnt" 2>"$work/log.mount"; do
	n=$((n + 1))
	[ $n -lt 300 ] || { cat "$work/log.mount" >&2; exit 1; }
	sleep 0.1
done
class=0
while [ $class -lt 10 ]; do
	mkdir "$work/tree/class$class"
	head -c $((4096 * 400)) /dev/urandom | split -b 4096 -a 3 - "$work/tree/class$class/image"
	class=$((class + 1))
done
"$BIN/wekactl" --connect "shm:$work/sock" --key "$work/key" import "$work/tree" /tree >/dev/null || exit 1
sleep 6 # a file that has just been changed takes a second look
export WEKA_PRELOAD="-o key=$work/key shm:$work/sock $work/mnt"
median() { sort -n "$1" | awk '{ v[NR] = $1 } END { printf "%.0f %.0f %.0f", v[int((NR + 1) / 2)], v[1], v[NR] }'; }
echo "4,000 files of 4 KiB in 10 directories, read by name: files a second, median (least to most)"
status=0
for processes in 1 4; do
	: >"$work/mount" && : >"$work/preload" && : >"$work/sums"
	i=0
	while [ $i -lt "$ROUNDS" ]; do
		"$READ" "$work/mnt/tree" $processes "$SECONDS_EACH" >"$work/out" || exit 1
		cut -d ' ' -f 1 "$work/out" >>"$work/mount" && cut -d ' ' -f 2 "$work/out" >>"$work/sums"
		LD_PRELOAD=$SO "$READ" "$work/mnt/tree" $processes "$SECONDS_EACH" >"$work/out" || exit 1
		cut -d ' ' -f 1 "$work/out" >>"$work/preload" && cut -d ' ' -f 2 "$work/out" >>"$work/sums"
		i=$((i + 1))
	done
	[ "$(sort -u "$work/sums" | wc -l)" = 1 ] || { echo "the bytes differ"; status=1; }
	echo "$processes $(median "$work/mount") $(median "$work/preload")" |
		awk '{ printf "%d process%s  weka-mount %d (%d to %d)  libweka-preload.so %d (%d to %d)  %.1f times\n",
			$1, $1 == 1 ? "  " : "es", $2, $3, $4, $5, $6, $7, $5 / $2 }'
done
exit $status

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# What a mount costs: weka-mount beside a FUSE file system that answers from memory
# (test/tools/fuse_memory.c), so that the kernel's part and ours can be told apart; tmpfs has neither.
#
#   bench/mount.sh [WEKA-BENCH-OPTION...]      such as --quick --only "Small files"; as root
#
# All of them are measured in turn, in every round, by the same program.
set -u
: "${BUILD:=build}"
cd "$(dirname "$0")/.." || exit 1
BIN=$(realpath "$BUILD/release/bin") TOOL=$BUILD/release/test/tools/fuse_memory
[ -x "$TOOL" ] || { echo "mount.sh: make $TOOL first" >&2; exit 1; }
work=$(mktemp -d) daemon=
finish() {
	for m in weka-0 weka-60 memory-0 memory-60 tmpfs; do umount -l "$work/$m" 2>/dev/null; done
	[ -z "$daemon" ] || kill "$daemon"
	[ -z "$daemon" ] || wait "$daemon"
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

(umask 077 && od -An -tx1 -N32 /dev/urandom | tr -d ' \n' >"$work/key")
printf '%s\n' "drive = mem:${DRIVE:-2G}" "listen = shm:$work/sock" "key_file = $work/key" "core = none" >"$work/conf"
"$BIN/weka-appliance" --config "$work/conf" 2>"$work/log" &
daemon=$!
threads=${THREADS:-1}
for cache in 0 60; do
	mkdir "$work/weka-$cache" "$work/memory-$cache"
	n=0
	until "$BIN/weka-mount" -o "key=$work/key,cache=$cache,threads=$threads" "shm:$work/sock" "$work/weka-$cache" 2>"$work/log.mount"; do
		n=$((n + 1))
		[ $n -lt 300 ] || { cat "$work/log.mount" >&2; exit 1; }
		sleep 0.1
	done
	"$TOOL" "$work/memory-$cache" "$threads" $cache &
	until grep -q " $work/memory-$cache " /proc/mounts; do sleep 0.1; done
done
mkdir "$work/tmpfs" && mount -t tmpfs none "$work/tmpfs" || exit 1
"$BIN/weka-bench" compare --threads 1 "$@" \
	--target "posix:$work/memory-0" --name "FUSE from memory, cache=0" \
	--target "posix:$work/weka-0" --name "weka-mount, cache=0" \
	--target "posix:$work/memory-60" --name "FUSE from memory, cache=60" \
	--target "posix:$work/weka-60" --name "weka-mount, cache=60" \
	--target "posix:$work/tmpfs" --name "tmpfs"

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# make demo: real files onto an appliance's drives and back in random order, every byte compared,
# timed, next to the local file system: from its page cache, and from the disk.  A second appliance
# with a memory drive shows what the disk costs.  DATA=DIR takes a tree of yours.  Needs no root and
# leaves nothing running; logs stay under build/demo until the next run.
set -eu
: "${BUILD:=build}" "${DATA:=}" "${EPOCHS:=3}"
BIN=$(realpath "$BUILD/release/bin")
DEMO=${DEMO:-$BUILD/demo}
DAEMONS=

step() { printf '\n\033[1m%s\033[0m\n' "$*"; }
die() { echo "demo: $*" >&2; exit 1; }
stop() { # NAME
	eval "pid=\$PID_$1"
	kill -TERM "$pid" 2>/dev/null || true
	wait "$pid" || die "the appliance did not stop cleanly; see $DEMO/$1.log"
	DAEMONS=$(echo " $DAEMONS " | sed "s/ $pid / /")
}
trap 'for pid in $DAEMONS; do kill -9 "$pid" 2>/dev/null; done; rm -f "$DEMO"/d0 "$DEMO"/d1' EXIT
trap 'exit 130' INT TERM

pictures() { # Debian's openclipart-png: 8,000 small files that anybody can have
	if [ ! -d "$BUILD/openclipart/usr" ]; then
		echo "downloading Debian's openclipart-png (125 MB), once"
		rm -rf "$BUILD/openclipart"
		mkdir -p "$BUILD/openclipart"
		(cd "$BUILD/openclipart" && apt-get download openclipart-png 2>err) || {
			cat "$BUILD/openclipart/err" >&2
			die "apt-get cannot download openclipart-png (apt-get update may help); or take files of yours: make demo DATA=DIR"
		}
		echo "unpacking it"
		mkdir "$BUILD/openclipart/new"
		dpkg-deb -x "$BUILD"/openclipart/*.deb "$BUILD/openclipart/new"
		mv "$BUILD/openclipart/new/usr" "$BUILD/openclipart/usr" # all of it, or nothing
	fi
	DATA=$BUILD/openclipart/usr/share/openclipart/png
}

start() { # NAME: with NAME.conf; its log is NAME.log
	"$BIN/weka-appliance" --config "$DEMO/$1.conf" >>"$DEMO/$1.log" 2>&1 &
	eval "PID_$1=$!"
	DAEMONS="$DAEMONS $!"
	n=0
	until ctl "$1" status >/dev/null 2>&1; do
		n=$((n + 1))
		kill -0 $! 2>/dev/null && [ $n -lt 2400 ] || { tail -3 "$DEMO/$1.log" >&2; die "the appliance does not start"; }
		sleep 0.05
	done
}
ctl() { # NAME ARGUMENTS...: at that appliance
	at=shm:$DEMO/$1.sock
	shift
	"$BIN/wekactl" --connect "$at" --key "$DEMO/key" "$@"
}
write_conf() { # NAME PORT DRIVE...
	conf=$DEMO/$1.conf
	printf 'listen = shm:%s\nlisten = tcp://127.0.0.1:%s\nkey_file = %s\n' "$DEMO/$1.sock" "$2" "$DEMO/key" >"$conf"
	shift 2
	printf 'drive = %s\n' "$@" >>"$conf"
}

mkdir -p "$DEMO"
DEMO=$(realpath "$DEMO")
rm -f "$DEMO"/d0 "$DEMO"/d1 "$DEMO"/*.sock "$DEMO"/*.log "$DEMO/key"
[ -n "$DATA" ] || pictures
[ -d "$DATA" ] || die "$DATA: no such directory"
: "${PORT:=$((12000 + $$ % 9000 * 2))}" # and the one behind it

# Two drives that hold the tree with room to spare: blocks of 4 KiB, and as much again.
need=$(du -s --apparent-size -B 1 "$DATA" | cut -f1)
count=$(find "$DATA" | wc -l)
mib=$(((need + count * 6000) / (1 << 20) + 64))
memory=$(awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo)

step "1  Make two drives of $mib MiB each (files under $DEMO) and a store on them"
set -- # root makes keys for the user weka where there is one, and the demo runs as root then
[ "$(id -u)" != 0 ] || set -- --user root
"$BIN/wekactl" --quiet "$@" keys init "$DEMO/key"
write_conf disk $PORT "file:$DEMO/d0?size=${mib}M" "file:$DEMO/d1?size=${mib}M"
"$BIN/wekactl" --config "$DEMO/disk.conf" format

step "2  Start the appliance and import $DATA ($count names)"
start disk
ctl disk import "$DATA" /data

step "3  Restart it: from here on everything comes from its drives"
stop disk
start disk
ctl disk status

set -- --connect "shm:$DEMO/disk.sock" --name "appliance, drives on the disk, shared memory" \
	--connect "tcp://127.0.0.1:$PORT" --name "appliance, drives on the disk, TCP"
if [ $((2 * mib)) -lt $((memory / 2)) ]; then
	step "4  Start a second appliance, whose drive is memory, and import the same"
	write_conf memory $((PORT + 1)) "mem:$((2 * mib))M"
	start memory
	ctl memory import "$DATA" /data
	set -- "$@" --connect "shm:$DEMO/memory.sock" --name "appliance, drive in memory, shared memory" \
		--connect "tcp://127.0.0.1:$((PORT + 1))" --name "appliance, drive in memory, TCP"
else
	step "4  No second appliance: its drive in memory would take more than half of what is free"
	WITHOUT=yes
fi

step "5  Read every file once in random order, $EPOCHS times in each way, and compare every byte"
"$BIN/weka-bench" epoch "$@" --key "$DEMO/key" --tree "$DATA" --prefix /data --batch 256 --epochs "$EPOCHS" \
	--summary --verify

cat <<EOF

What this shows.  One thread reads in every row; figures are medians of $EPOCHS epochs.
  files/s    files read whole in a second.  Local files: open(), read(), close(), one file after
             the other.  Appliance: by name, 256 files to a request, 4 requests in flight
  MB/s       the bytes of these files in a second
  x disk     files/s, compared with the row "local files, from the disk"

  - Training data seldom fits into memory, so the row to beat is the one from the disk.  The page
    cache holds these few files, but no large data set.
  - The appliance keeps no file in memory: each is read from its drives, and its checksum is
    compared, in every epoch.
EOF
[ -n "${WITHOUT:-}" ] || cat <<EOF
  - The rows with the drive in memory show what the appliance itself can do on this machine; the
    rows with drives on the disk show what is left of it behind this machine's disk.  A fast NVMe
    drive lies between the two.
EOF

: "${PYTHON:=/usr/bin/python3}"
if "$PYTHON" -c "import torch" 2>/dev/null && [ -e "$BUILD/release/python/weka/_weka.abi3.so" ]; then
	step "6  The same files as epochs of PyTorch, every byte compared"
	[ -n "${WITHOUT:-}" ] && at=disk || at=memory
	PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$(realpath "$BUILD/release/python") "$PYTHON" test/demo_torch.py \
		"shm:$DEMO/$at.sock" "$DEMO/key" /data "$DATA" "$EPOCHS"
else
	step "6  No epoch of PyTorch: it is not installed (apt-get install python3-torch python3-dev)"
fi

step "7  Stop, and prove every invariant of the store"
stop disk
[ -n "${WITHOUT:-}" ] || stop memory
"$BIN/wekactl" --config "$DEMO/disk.conf" check
echo
echo "demo: done; every byte was what it should be"

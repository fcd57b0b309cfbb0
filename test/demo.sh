#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# make demo: real files onto an appliance's flash and back in random order, every byte compared,
# timed, next to the local file system.  DATA=DIR takes a tree of yours.  Needs no root and leaves
# nothing running; files stay under build/demo until the next run.
set -eu
: "${BUILD:=build}" "${DATA:=}" "${EPOCHS:=3}"
BIN=$(realpath "$BUILD/release/bin")
DEMO=$BUILD/demo
DAEMON=

step() { printf '\n\033[1m%s\033[0m\n' "$*"; }
die() { echo "demo: $*" >&2; exit 1; }
stop() {
	[ -n "$DAEMON" ] || return 0
	kill -TERM "$DAEMON" 2>/dev/null || true
	wait "$DAEMON" || die "the appliance did not stop cleanly; see $DEMO/daemon.log"
	DAEMON=
}
trap '[ -z "$DAEMON" ] || kill -9 "$DAEMON" 2>/dev/null; rm -f "$DEMO"/d0 "$DEMO"/d1' EXIT
trap 'exit 130' INT TERM

pictures() { # Debian's openclipart-png: 8,000 small files that anybody can have
	if [ ! -d "$BUILD/openclipart/usr" ]; then
		echo "downloading Debian's openclipart-png (125 MB), once"
		mkdir -p "$BUILD/openclipart"
		(cd "$BUILD/openclipart" && apt-get download openclipart-png >/dev/null 2>&1) ||
			die "apt-get download openclipart-png failed; or give a tree: make demo DATA=DIR"
		dpkg-deb -x "$BUILD"/openclipart/*.deb "$BUILD/openclipart"
	fi
	DATA=$BUILD/openclipart/usr/share/openclipart/png
}

start() {
	"$BIN/weka-appliance" --config "$DEMO/weka.conf" >>"$DEMO/daemon.log" 2>&1 &
	DAEMON=$!
	n=0
	until ctl status >/dev/null 2>&1; do
		n=$((n + 1))
		kill -0 "$DAEMON" 2>/dev/null && [ $n -lt 200 ] || { tail -3 "$DEMO/daemon.log" >&2; die "the appliance does not start"; }
		sleep 0.05
	done
}
ctl() { "$BIN/wekactl" --connect "$SHM" --key "$DEMO/key" "$@"; }

mkdir -p "$DEMO"
DEMO=$(realpath "$DEMO")
rm -f "$DEMO"/d0 "$DEMO"/d1 "$DEMO"/*.sock "$DEMO/daemon.log"
[ -n "$DATA" ] || pictures
[ -d "$DATA" ] || die "$DATA: no such directory"
PORT=$((20000 + $$ % 20000))
SHM=shm:$DEMO/weka.sock
TCP=tcp://127.0.0.1:$PORT

# Two drives that hold the tree with room to spare: blocks of 4 KiB, and as much again.
need=$(du -s --apparent-size -B 1 "$DATA" | cut -f1)
count=$(find "$DATA" | wc -l)
size=$(((need + count * 6000) / (1 << 20) + 64))M

step "1  format two drives of $size (files under $DEMO)"
(umask 077; echo "$(od -An -tx1 -N32 /dev/urandom | tr -d ' \n')" >"$DEMO/key")
cat >"$DEMO/weka.conf" <<EOF
drive = file:$DEMO/d0?size=$size
drive = file:$DEMO/d1?size=$size
listen = $SHM
listen = $TCP
key_file = $DEMO/key
EOF
"$BIN/wekactl" --config "$DEMO/weka.conf" format

step "2  start the appliance, import $DATA ($count entries)"
start
ctl import "$DATA" /data

step "3  restart the appliance"
stop
start
ctl status

step "4  $EPOCHS epochs, each file once in random order, batches of 256; every byte compared"
"$BIN/weka-bench" epoch --connect "$SHM" --connect "$TCP" --key "$DEMO/key" --tree "$DATA" --prefix /data \
	--batch 256 --epochs "$EPOCHS" --verify

echo "(local: this machine's page cache. The appliance keeps no file in memory: each was read from its drive.)"

step "5  stop, and prove the store"
stop
"$BIN/wekactl" --config "$DEMO/weka.conf" check
echo
echo "demo: done; every byte was what it should be"

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Power cuts.  Killing QEMU alone proves nothing, since the host's cache survives it: so QEMU logs
# every write and flush, in one order for all drives (see cut.c), and the drives are made again as
# they could have been at flushes and between them.  The shipped appliance mounts each here, and
# the witnesses look for all that they had been answered.
cd "$(dirname "$0")/../.." && . test/guest/lib.sh

case ${TEST_LENGTH:-short} in
short) cuts=${CUTS:-1} boundaries=${BOUNDARIES:-12} ;;
*)     cuts=${CUTS:-20} boundaries=${BOUNDARIES:-50} ;;
esac
drives=2
size_mb=128
GUEST_CONF='modules="9p 9pnet_virtio virtio_pci virtio_blk"
export WITNESSES=3 JOURNAL=/dev/vda DRIVES="pci:0000:00:04.0 pci:0000:00:05.0"'
CUT=$BIN/../test/guest/cut
WITNESS=$BIN/../test/guest/witness
STORE=

trap '[ -z "$STORE" ] || kill "$STORE"; cleanup' EXIT

# The common log: a slice for the log of each drive and one for the journal.
start_log() {
	rm -f "$DIR/common.img" "$DIR/log" "$DIR/nbd" "$DIR/store.pid"
	truncate -s $(((drives + 1) << 30)) "$DIR/common.img"
	: >"$DIR/log"
	set -- --blockdev "driver=blklogwrites,node-name=all,file.driver=file,file.filename=$DIR/common.img,log.driver=file,log.filename=$DIR/log,log.cache.no-flush=on" \
		--nbd-server "addr.type=unix,addr.path=$DIR/nbd,max-connections=$((drives + 1))"
	for i in $(seq 0 $drives); do
		set -- "$@" --blockdev "driver=raw,node-name=slice$i,file=all,offset=$((i << 30)),size=$((1 << 30))" \
			--export "type=nbd,id=export$i,node-name=slice$i,name=slice$i,writable=on"
	done
	qemu-storage-daemon "$@" --pidfile "$DIR/store.pid" 2>"$DIR/store.log" &
	STORE=$!
	until [ -e "$DIR/store.pid" ] || ! kill -0 $STORE 2>/dev/null; do sleep 0.05; done
}

slice() { echo "driver=nbd,server.type=unix,server.path=$DIR/nbd,export=slice$1"; }

logged_drives() {
	QEMU_NVME=
	for i in $(seq 0 $((drives - 1))); do
		rm -f "$DIR/p$i.img"
		truncate -s "${size_mb}M" "$DIR/p$i.img"
		QEMU_NVME="$QEMU_NVME -blockdev driver=blklogwrites,node-name=p$i,file.driver=file,file.filename=$DIR/p$i.img,file.cache.no-flush=on,$(slice $i | sed 's/\(^\|,\)/\1log./g') -device nvme,id=nvme-p$i,serial=p$i,addr=$((4 + i)) -device nvme-ns,bus=nvme-p$i,drive=p$i,nsid=1"
	done
	QEMU_MORE="-blockdev $(slice $drives),node-name=journal -device virtio-blk-pci,drive=journal"
}

acknowledged() { "$CUT" "$DIR/log" $drives count 2>/dev/null | sed 's/.*, \([0-9]*\) changes.*/\1/' | grep . || echo 0; }

is_over() { [ -e "$OUT/status" ] || ! kill -0 $machine 2>/dev/null; } # it should not be

# One run until the power goes; the log stays.
run_until_cut() { # CHANGES that are acknowledged before it
	start_log
	logged_drives
	prepare power.sh
	qemu "$GUEST_SECONDS" &
	machine=$!
	until [ -e "$OUT/running" ] || is_over; do sleep 0.1; done
	until [ "$(acknowledged)" -ge "$1" ] || is_over; do sleep 0.2; done
	kill -9 "$(cat "$DIR/qemu.pid" 2>/dev/null || echo $machine)" 2>/dev/null
	wait $machine 2>/dev/null
	kill -TERM $STORE
	wait $STORE
	STORE=
	[ "$(acknowledged)" -ge "$1" ] && [ ! -e "$OUT/status" ]
}

# Keeps the log of a cut that lost something: `cut LOG DRIVES make POINT SEED ...` makes the cut again.
keep_cut() { # POINT SEED
	mkdir -p "$BUILD/guest-failed"
	kept=$BUILD/guest-failed/power-$2
	[ -e "$kept.log" ] || cp --sparse=always "$DIR/log" "$kept.log"
	cp "$DIR/key" "$kept.key"
	cat "$DIR/why" "$DIR/daemon.log" >"$kept-$1.why"
	echo "# kept: $kept.log"
}

# The store as it is after a cut at POINT: check, mount, and every witness.
survives() { # POINT SEED
	rm -f "$DIR"/cut*.img
	# shellcheck disable=SC2046 # names of images
	"$CUT" "$DIR/log" $drives make "$1" "$2" $((size_mb << 20)) \
		$(seq -f "$DIR/cut%g.img" 0 $((drives - 1))) >"$DIR/acked" || return 1
	start || return 1
	while read -r w count; do
		"$WITNESS" verify "$SHM" "$DIR/key" "$w" "$count" || { crash; return 1; }
	done <"$DIR/acked"
	stop || return 1
	"$BIN/wekactl" check $IMAGES
}

IMAGES=$(seq -f "file:$DIR/cut%g.img" 0 $((drives - 1)))
CACHE=16M write_conf $IMAGES

total=0 lost=0
for run in $(seq "$cuts"); do
	seed=${SEED:-$run}
	run_until_cut $((60 + seed * 37 % 100)) || { not_ok "run $run: changes enough before the cut" "$(cat "$OUT/log" "$DIR/qemu.log")"; continue; }
	"$CUT" "$DIR/log" $drives points "$boundaries" "$seed" >"$DIR/points" || not_ok "run $run: the log can be read"
	while read -r point; do
		total=$((total + 1))
		survives "$point" "$seed" >"$DIR/why" 2>&1 </dev/null && continue
		lost=$((lost + 1))
		not_ok "run $run, cut at $point, seed $seed: all that was acknowledged is there" "$(tail -n 5 "$DIR/why" "$DIR/daemon.log")"
		keep_cut "$point" "$seed"
		[ $lost -lt 5 ] || break
	done <"$DIR/points"
	echo "# run $run: $("$CUT" "$DIR/log" $drives count)"
done
[ $lost = 0 ] && [ $total -gt 0 ] && ok "power: $cuts runs, $total cuts, all that was acknowledged is there after each"
finish

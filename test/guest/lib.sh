# SPDX-License-Identifier: BSD-2-Clause-Patent
# shellcheck shell=sh
# Boots a guest with a stock kernel, an emulated IOMMU and NVMe controllers, and runs a payload of
# test/guest/in/ in it.  For the scripts test/guest/guest_*.sh, which source it:
#
#     nvme d0 256M serial=A,mdts=5 logical_block_size=4096     a controller with a namespace of 256 MiB
#     boot tree.sh                                             0..255: the payload's exit status
#
# The payload's lines "ok ..." and "not ok ..." become ours.  After each boot one more line tells
# whether the kernel complained: a DMA fault above all, since this QEMU completes a command whose
# DMA faulted with success.
#
# Several guests at once, which do what they are told (test/guest/in/agent.sh) until they are told to
# leave, or until their power is cut:
#
#     prepare agent.sh
#     guest appliance; nvme d0 256M; power_on       guest client; QEMU_MORE=...; power_on
#     at appliance start                            a command in that guest, its output and status
#     power_cut client                              power_off appliance
#
# $OUT is a directory that host and guest share (/out there).  After a failed boot console, dmesg, log
# and QEMU's own messages are kept in $BUILD/guest-failed/.
#
# Images lie in memory where there is room: a loaded disk's syncs would be the slowest thing here.
[ -n "${TMPDIR:-}" ] || [ ! -w /dev/shm ] || export TMPDIR=/dev/shm
. test/e2e/lib.sh

: "${GUEST_CACHE:=$BUILD/guest}"
export GUEST_CACHE BUILD
: "${GUEST_CPUS:=2}"
GUEST_MEMORY=1024
GUEST_SECONDS=${GUEST_SECONDS:-600} # of one boot; a machine of its own needs a twentieth
QEMU_NVME=        # what nvme() gathered
QEMU_MORE=        # what a script adds
IOMMU=            # ,aw-bits=48
GUEST=$DIR        # what is one guest's own lies there
OUT=$GUEST/out
boots=0
mkdir -p "$OUT"

# By hand: what is run is what the tree is now.  (A client of yesterday finds bugs that are none.)
[ -n "${MAKELEVEL:-}" ] || make -s BUILD="$BUILD" guest-tools >/dev/null || exit 1
test/guest/image.sh || { echo "not ok a guest can be made"; exit 1; }

# ---- hardware ----------------------------------------------------------------------------------

# blockdev NODE FILE: the image FILE, made by the caller.  cache=unsafe: what the host's disk does
# with it is not what is tested.
blockdev() {
	echo "-blockdev driver=raw,node-name=$1,file.driver=file,file.filename=$2,cache.no-flush=on"
}

# nvme ID SIZE [CONTROLLER-OPTIONS [NAMESPACE-OPTIONS]]: a controller with one namespace.
nvme() {
	truncate -s "$2" "$DIR/$1.img"
	QEMU_NVME="$QEMU_NVME $(blockdev "$1" "$DIR/$1.img") -device nvme,id=nvme-$1,serial=$1${3:+,$3}"
	QEMU_NVME="$QEMU_NVME -device nvme-ns,bus=nvme-$1,drive=$1,nsid=1${4:+,$4}"
}

# namespace ID CONTROLLER NSID SIZE [OPTIONS]: one more.
namespace() {
	truncate -s "$4" "$DIR/$1.img"
	QEMU_NVME="$QEMU_NVME $(blockdev "$1" "$DIR/$1.img")"
	QEMU_NVME="$QEMU_NVME -device nvme-ns,bus=nvme-$2,drive=$1,nsid=$3${5:+,$5}"
}

# ---- boot ------------------------------------------------------------------------------------------

# Makes the archive of all that differs from boot to boot; it is loaded behind the cached one.
make_initrd() { # PAYLOAD
	root=$DIR/root
	rm -rf "$root"
	mkdir -p "$root/weka/release" "$root/weka/test/guest"
	cp -r test/e2e "$root/weka/test/"
	cp -r test/guest/in "$root/weka/test/guest/"
	cp -r "$BIN" "$root/weka/release/bin"
	cp "$BIN"/../test/guest/witness "$BIN"/../test/guest/flr "$root/weka/test/guest/"
	cp "$BIN"/../test/guest/preload_*.so "$root/weka/test/guest/" 2>/dev/null
	strip -g "$root"/weka/release/bin/* "$root/weka/test/guest/witness" "$root/weka/test/guest/flr"
	for tool in ${GUEST_TOOLS:-}; do # others of the host's, that this payload calls
		mkdir -p "$root/bin"
		cp "$(command -v "$tool")" "$root/bin/"
	done
	test/guest/libs.sh "$root"
	{
		echo "payload=$1"
		[ -z "${APP_CORES:-}" ] || echo "export APP_CORES=$APP_CORES"
		[ -z "${GUEST_SHELL:-}" ] || echo shell=1
		[ -z "${GUEST_CONF:-}" ] || printf '%s\n' "$GUEST_CONF"
		echo "export TEST_LENGTH=${TEST_LENGTH:-short} BUILD=/weka"
	} >"$root/guest.conf"
	(cd "$root" && find . | cpio -o -H newc -R 0:0 --quiet) >"$DIR/boot.cpio"
	cat "$GUEST_CACHE/base.cpio" "$DIR/boot.cpio" >"$DIR/initrd"
}

# qemu SECONDS: runs the machine until it is off.  QEMU's process is in $GUEST/qemu.pid.
qemu() {
	serial=file:$GUEST/console input=/dev/null foreground=
	[ -z "${GUEST_SHELL:-}" ] || { serial=mon:stdio input=/dev/tty foreground=--foreground; }
	# shellcheck disable=SC2086 # options are words
	timeout $foreground -k 5 "$1" qemu-system-x86_64 -accel tcg,thread=multi,tb-size=512 \
		-machine q35,kernel-irqchip=split -cpu Nehalem -smp $GUEST_CPUS -m $GUEST_MEMORY \
		-pidfile "$GUEST/qemu.pid" -nodefaults -no-user-config -display none -no-reboot -monitor none \
		-serial "$serial" -device isa-debug-exit,iobase=0xf4,iosize=0x04 \
		-device "intel-iommu,intremap=on$IOMMU" -device virtio-rng-pci \
		-virtfs "local,path=$OUT,mount_tag=out,security_model=none,id=out,multidevs=remap" \
		$QEMU_NVME $QEMU_MORE -kernel "$GUEST_CACHE/vmlinux" -initrd "$DIR/initrd" \
		-append "console=ttyS0 quiet loglevel=4 panic=-1 nokaslr mitigations=off tsc=reliable no_timer_check random.trust_cpu=on intel_iommu=on iommu.strict=1 $GUEST_CMDLINE" \
		<"$input" 2>"$GUEST/qemu.log"
}
# Its clock, which it would measure wrong on a busy machine.
GUEST_CMDLINE=tsc_early_khz=$("$BIN/../test/guest/tsc_khz") || GUEST_CMDLINE=

prepare() { # PAYLOAD
	make_initrd "$1"
	forget
}
forget() { rm -f "$OUT/log" "$OUT/status" "$OUT/dmesg" "$OUT/running" "$GUEST/qemu.pid"; } # the last boot

# boot PAYLOAD: its exit status; 124 when it took too long, 125 when the guest died before its end.
boot() {
	boots=$((boots + 1))
	payload=$1
	prepare "$payload"
	qemu "$GUEST_SECONDS"
	code=$?
	status=$(cat "$OUT/status" 2>/dev/null)
	: "${status:=$([ $code = 124 ] || [ $code = 137 ] && echo 124 || echo 125)}"
	told "$status"
	return "$status"
}

# Prints the log of a boot that has ended, and counts its failures.
told() {
	cat "$OUT/log" 2>/dev/null
	wrong=$(cat "$OUT/log" 2>/dev/null | grep -c "^not ok ")
	failures=$((failures + wrong))
	case $1 in
	0) grep -q "^ok " "$OUT/log" || not_ok "$payload: it says what it has tried" "nothing in its log" ;;
	124) not_ok "$payload ends within $GUEST_SECONDS s" "$(tail -n 5 "$GUEST/console")" ;;
	125) not_ok "$payload: the guest lives to its end" "$(tail -n 15 "$GUEST/console" "$GUEST/qemu.log")" ;;
	*) [ "$wrong" != 0 ] || not_ok "$payload: it comes to its end" "it left with $1" ;;
	esac
	no_complaints
	[ $failures = 0 ] || keep
}
no_complaints() {
	complaints=$(kernel_complaints)
	is "$payload: no DMA fault, no complaint of the kernel's" "" "$complaints"
}

# Prints the lines that must never be in a log.  GUEST_EXPECT: an extended regular expression of lines
# that a test provokes.
kernel_complaints() {
	cat "$GUEST/console" "$OUT/dmesg" "$GUEST/qemu.log" 2>/dev/null | tr -d '\r' |
		grep -aE 'DMAR:.*(fault|\[DMA)|vtd_|WARNING:|BUG:|Oops|Call Trace|general protection|Kernel panic|I/O error|segfault|hung task|soft lockup|rcu_.*stall|qemu-system.*: ' |
		{ [ -z "${GUEST_EXPECT:-}" ] && cat || grep -aEv "$GUEST_EXPECT"; } | head -n 10
}

keep() {
	mkdir -p "$BUILD/guest-failed"
	for f in "$GUEST/console" "$GUEST/qemu.log" "$OUT/dmesg" "$OUT/log"; do
		[ ! -f "$f" ] || cp "$f" "$BUILD/guest-failed/$boots-$payload.${f##*/}"
	done
}

# ---- several at once -------------------------------------------------------------------------------

# guest NAME: it is about that one from here on.
guest() {
	GUEST=$DIR/$1
	OUT=$GUEST/out
	QEMU_NVME=
	QEMU_MORE=
	payload=$1
	mkdir -p "$OUT"
}

# The guest with what it has in QEMU_NVME and QEMU_MORE is there, and listens to at().  "prepare
# agent.sh" once, before the first.
power_on() {
	boots=$((boots + 1))
	forget
	rm -f "$OUT/listens" "$OUT/answered" "$OUT"/ask.* "$GUEST"/bell.* "$GUEST/off"
	echo 0 >"$GUEST/asked"
	mkfifo "$GUEST/bell.in" "$GUEST/bell.out" # its second serial line: one who reads it sleeps
	QEMU_MORE="$QEMU_MORE -serial pipe:$GUEST/bell"
	{ qemu "$GUEST_SECONDS"; : >"$GUEST/off"; } &
	echo $! >"$GUEST/machine"
	until [ -e "$OUT/listens" ] || [ -e "$GUEST/off" ]; do sleep 0.05; done
	[ -e "$OUT/listens" ] || not_ok "$payload: the guest comes up" "$(tail -n 15 "$GUEST/console" "$GUEST/qemu.log")"
	[ -e "$OUT/listens" ]
}

# at NAME COMMAND...: the shell there runs it; functions too, and variables stay.  124: it is off.
at() { # a guest that hangs is ended after GUEST_SECONDS
	there=$DIR/$1
	shift
	asked=$(($(cat "$there/asked") + 1)) # in a file: who asks may be a subshell
	echo $asked >"$there/asked"
	for word; do printf "'%s' " "$(printf '%s' "$word" | sed "s/'/'\\\\''/g")"; done >"$there/out/ask.$asked"
	echo $asked 1<>"$there/bell.in" # RDWR: a guest that is off does not hold us up
	until { read -r answered status <"$there/out/answered"; } 2>/dev/null && [ "$answered" = $asked ]; do
		[ ! -e "$there/off" ] || return 124
		sleep 0.05
	done
	cat "$there/out/answer"
	return "$status"
}

power_cut() { # NAME
	guest "$1"
	kill -9 "$(cat "$GUEST/qemu.pid")"
	wait "$(cat "$GUEST/machine")" 2>/dev/null
}
# power_off NAME: it leaves in order; what its kernel had to complain of is told.
power_off() {
	guest "$1"
	at "$1" exit 0
	wait "$(cat "$GUEST/machine")" 2>/dev/null
	is "$payload: the guest lives to its end" 0 "$(cat "$OUT/status" 2>/dev/null)"
	no_complaints
	[ $failures = 0 ] || keep
}
guests_cleanup() {
	for pid in "$DIR"/*/qemu.pid; do [ ! -e "$pid" ] || kill -9 "$(cat "$pid")" 2>/dev/null; done
	cleanup
}
trap guests_cleanup EXIT

# SPDX-License-Identifier: BSD-2-Clause-Patent
# shellcheck shell=sh
# test/image/image_*.sh source this file.  Its functions boot the appliance's disk image in QEMU, with
# UEFI, an IOMMU and NVMe drives.  They type at its console, read what it shows, and forward its port.
# For example, `disk weka.raw 3G` copies the image to the machine's disk.  `power_on` starts the machine,
# and `power_cut` ends it at once, `power_off` in order.  `expect "Serving at" 300` waits up to 300 s until
# the console says so, after what was expected before.  `say "setup"` types that.
[ -n "${TMPDIR:-}" ] || [ ! -w /dev/shm ] || export TMPDIR=/dev/shm
. test/e2e/lib.sh

IMAGES=$BUILD/image
CODE=/usr/share/OVMF/OVMF_CODE_4M.fd
MACHINE= # the process that runs QEMU
READER=
SEEN=0   # how much of the console was looked at
ADDRESS=tls://127.0.0.1:$PORT
KEY=$DIR/key

empty_drives() { # SIZE: two, empty
	truncate -s "$1" "$DIR/d0" "$DIR/d1"
}
written() { stat -c %b "$@" | xargs; } # FILE...: how many blocks of each
disk() { # IMAGE SIZE
	cp --sparse=always "$1" "$DIR/disk"
	truncate -s "$2" "$DIR/disk"
	cp /usr/share/OVMF/OVMF_VARS_4M.fd "$DIR/vars"
	empty_drives 1G
}
image() { echo "-drive if=none,id=$1,format=raw,file=$DIR/$1,cache=unsafe"; }
# A machine may have none for the system.
disk_drive() { [ ! -e "$DIR/disk" ] || echo "$(image disk) -device virtio-blk-pci,drive=disk,bootindex=1"; }
# $DIR/medium: one more disk.  $DIR/tftp/weka.efi: the firmware boots that over the network.
medium() { [ ! -e "$DIR/medium" ] || echo "$(image medium) -device virtio-blk-pci,drive=medium"; }
# $DIR/cd: the installer's CD is in.
cd_drive() {
	[ ! -e "$DIR/cd" ] || echo "-drive if=none,id=cd,format=raw,readonly=on,media=cdrom,file=$IMAGES/weka-install.iso" \
		"-device ide-cd,drive=cd,bus=ide.0,bootindex=0"
}
card() {
	if [ -e "$DIR/tftp/weka.efi" ]; then
		echo "-netdev user,id=n,restrict=on,$1,tftp=$DIR/tftp,bootfile=weka.efi"
		echo "-device virtio-net-pci,netdev=n,bootindex=0,romfile="
	else
		echo "-netdev user,id=n,restrict=on,$1 -device virtio-net-pci,netdev=n"
	fi
}

# It has one CPU: with two, it takes half as much of the host's time again.  That CPU says AMD, since the kernel then does without page tables of its own (against Meltdown): changing
# between two tables at each system call makes an emulated boot take a sixth longer.
CPU=Nehalem,vendor=AuthenticAMD
# Until it is switched off.  A restart is a new process: this QEMU runs firmware a thousand times slower
# after the warm restart of a guest that has run for a while.
machine() {
	# shellcheck disable=SC2046 # options are words
	while [ -e "$DIR/on" ]; do
		${INSIDE:-} qemu-system-x86_64 -accel tcg,thread=multi,tb-size=512 -machine q35,kernel-irqchip=split -cpu $CPU \
			-smp 1 -m 2048 -nodefaults -no-user-config -display none -monitor none -no-reboot \
			-pidfile "$DIR/qemu.pid" -device intel-iommu,intremap=on \
			-drive if=pflash,format=raw,readonly=on,file=$CODE -drive "if=pflash,format=raw,file=$DIR/vars" \
			-device virtio-rng-pci $(disk_drive) \
			$(image d0) -device nvme,drive=d0,serial=d0 $(image d1) -device nvme,drive=d1,serial=d1 \
			$(medium) $(cd_drive) $(card "hostfwd=tcp:127.0.0.1:$PORT-:7010") \
			-chardev "pipe,id=line,path=$DIR/line,logfile=$DIR/console,logappend=on" -serial chardev:line
	done
}
power_on() {
	[ -p "$DIR/line.in" ] || mkfifo "$DIR/line.in" "$DIR/line.out"
	exec 8<>"$DIR/line.in" 9<>"$DIR/line.out"
	: >"$DIR/console"
	: >"$DIR/on"
	SEEN=0
	machine >"$DIR/qemu.log" 2>&1 &
	MACHINE=$!
	cat "$DIR/line.out" >/dev/null & # nobody else reads it: the log has it
	READER=$!
}
is_off() {
	wait "$MACHINE" 2>/dev/null
	kill "$READER" 2>/dev/null
	MACHINE=
}
power_cut() {
	rm -f "$DIR/on"
	kill -9 "$(cat "$DIR/qemu.pid")"
	is_off
}
power_off() {
	rm -f "$DIR/on"
	say poweroff
	until_off
}
switched_off() { # the machine does that by itself
	rm -f "$DIR/on"
	until_off
}
until_off() {
	n=0
	while kill -0 "$MACHINE" 2>/dev/null; do
		n=$((n + 1))
		[ $n -lt 600 ] || { power_cut; return 1; }
		sleep 0.2
	done
	is_off
}
say() { printf '%s\n' "$1" >&8; }
console() { tail -c +$((SEEN + 1)) "$DIR/console" | tr -d '\r' | sed 's/\x1b\[[0-9;=]*[A-Za-z]//g'; }
# Prints how many seconds of CPU the machine has used, those of its earlier processes included.
used() {
	{ cut -d ' ' -f 14,15 "/proc/$(cat "$DIR/qemu.pid")/stat"; cut -d ' ' -f 16,17 "/proc/$MACHINE/stat"; } 2>/dev/null |
		awk -v hz="$(getconf CLK_TCK)" '{ n += $1 + $2 } END { print int(n / hz) }'
}
# Waits until the console has a text; what followed it is looked at next.  Gives up after so many seconds
# in which the machine had the CPU: this host may be busy with other tests.  A machine that does nothing
# is given eight times as many.
expect() { # REGEX SECONDS
	begun=$(date +%s) cpu=$(used)
	until console | grep -qaE "$1"; do
		waited=$(($(date +%s) - begun))
		if [ $waited -gt "$2" ] && { [ $(($(used) - cpu)) -gt "$2" ] || [ $waited -gt $((8 * $2)) ]; } ||
			! kill -0 "$MACHINE" 2>/dev/null; then
			console | tail -n 15
			cat "$DIR/qemu.log"
			return 1
		fi
		sleep 0.5
	done
	console >"$DIR/expected"
	SEEN=$(wc -c <"$DIR/console")
}
machine_cleanup() {
	[ -z "$MACHINE" ] || power_cut 2>/dev/null
	cleanup
}
trap machine_cleanup EXIT
# The ESP of the disk that is off: for mdir and mcopy.
esp() { echo "$DIR/disk@@1M"; }

# ---- upgrades ------------------------------------------------------------------------------------
V=$(sed -n 's/^version=//p' "$IMAGES/about")
image_of() { # NAME VERSION: an upgrade to one more image
	env -u MAKEFLAGS -u MAKELEVEL IMAGE="$DIR/$1" VERSION="$2" appliance/image/build.sh
}

# ---- ways to say what to do without typing -----------------------------------------------------------
setup_file() { # on the disk itself
	echo "format = empty" >"$DIR/weka-setup.conf"
	mcopy -i "$(esp)" "$DIR/weka-setup.conf" ::
}
label() { # LINE...: a medium with the label WEKA-SETUP, with these in weka-setup.conf
	rm -f "$DIR/medium"
	mkfs.vfat -n WEKA-SETUP -C "$DIR/medium" 4096 >/dev/null
	printf '%s\n' "$@" >"$DIR/weka-setup.conf"
	mcopy -i "$DIR/medium" "$DIR/weka-setup.conf" ::
}
cloud_medium() { # HOSTNAME RATE: a medium for cloud-init
	[ -e "$DIR/medium" ] || mkfs.vfat -n CIDATA -C "$DIR/medium" 4096 >/dev/null
	printf 'instance-id: 1\nlocal-hostname: %s.example.org\n' "$1" >"$DIR/meta-data"
	printf '#cloud-config\nusers: []\nweka:\n  format: empty\n  conf: |\n    scrub_bytes_per_second = %s\n' "$2" >"$DIR/user-data"
	mcopy -o -i "$DIR/medium" "$DIR/meta-data" "$DIR/user-data" ::
}

# ---- a tree of a client ----------------------------------------------------------------------------
# A client gives up after 10 s, and a busy host may give the machine no CPU for as long.
answers() {
	n=0
	until ctl status; do
		n=$((n + 1))
		[ $n -lt 60 ] || return 1
		sleep 1
	done
}
serve_a_tree() { # HOSTNAME: of a machine that was told what to format, and is on
	check "it serves, as it was told" expect "weka-appliance $V on $1, addresses" 300
	check "at its port" expect "Serving at tls://" 180
	say key
	check "with its key" expect "weka:[0-9a-f]{64}" 30
	(umask 077 && grep -aoE "weka:[0-9a-f]{64}" "$DIR/expected" >"$KEY")
	make_tree "$DIR/tree" 20
	check "a client reaches it" answers
	check "a client stores a tree" ctl import "$DIR/tree" /tree
}
still_there() { rm -rf "$DIR/back" && answers && ctl export /tree "$DIR/back" && same_trees "$DIR/tree" "$DIR/back"; }

# ---- the installer ----------------------------------------------------------------------------------
is_the_image() { cmp -n "$(stat -c %s "$IMAGES/weka.raw")" "$DIR/disk" "$IMAGES/weka.raw"; }

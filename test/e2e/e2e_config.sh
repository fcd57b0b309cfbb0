#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# What --check-config finds without a start, and exit statuses as the man pages have them.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=1}"

CTL=$BIN/wekactl
APP=$BIN/weka-appliance
D0=file:$DIR/d0?size=128M
write_conf "$D0"
check "format" "$CTL" format "$D0"
check "start" start
cpus=$(nproc)
first=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*\([0-9]*\).*/\1/p' /proc/self/status)

# ---- --check-config says what the start would ------------------------------------------------------
checks() { # NAME TEXT SED: refused with TEXT by --check-config and by the start alike
	sed "$3" "$CONF" >"$DIR/changed.conf"
	refuses "--check-config: $1" "$2" "$APP" --check-config --config "$DIR/changed.conf"
}
alike() { # the same of one that would be refused before a drive is opened
	checks "$@"
	refuses "start: $1" "$2" "$APP" --config "$DIR/changed.conf"
}
passes() { # NAME TEXT CONF: --check-config finds nothing wrong, and notes TEXT
	if "$APP" --check-config --config "$3" >"$DIR/notes" 2>&1 && grep -q -- "$2" "$DIR/notes"; then
		ok "$1"
	else
		not_ok "$1" "$(cat "$DIR/notes")"
	fi
}
passes "--check-config: what a daemon that runs has in use is named" "tcp.*: Address already in use: by the daemon that runs now" "$CONF"
passes "and is no mistake" "weka.conf: fine$" "$CONF"
alike "a CPU that is not there" "changed.conf:[0-9]*: core: the daemon may not use CPU 1000; it may use $first" \
	"s/^core = .*/core = 1000/; s/^cores = .*//"
if [ "$cpus" -lt 16 ]; then
	alike "more threads than CPUs" "changed.conf:[0-9]*: cores: 16 polling threads need a CPU each, and the daemon may use $cpus (" \
		"s/^core = .*/core = auto/; s/^cores = .*/cores = 16/"
	sed "s/^cores = .*/cores = 16/" "$CONF" >"$DIR/changed.conf"
	check "which may share them when they are not pinned" "$APP" --check-config --config "$DIR/changed.conf"
fi
alike "more memory than there is" "changed.conf:[0-9]*: cache: the start takes [0-9]* MiB of memory .*, and this machine has [0-9]* MiB" \
	"s/^cache = .*/cache = 1T/"
checks "a drive that is not there" "changed.conf:[0-9]*: drive: file:$DIR/d1: there is no such file; type: wekactl format" \
	"s|^drive = .*|&\ndrive = file:$DIR/d1|"
checks "a drive that is no drive" "changed.conf:[0-9]*: drive: file:/dev/null: neither a file nor a block device" \
	"s|^drive = .*|drive = file:/dev/null|"
checks "a PCI device that is not there" "there is no PCI device at this address; type: wekactl drives" \
	"s|^drive = .*|drive = pci:ffff:1f:1f.7|"
checks "a socket that is not there" "drive: vfio-user:$DIR/no: no such file" "s|^drive = .*|drive = vfio-user:$DIR/no|"
checks "a directory for the socket that is not there" "listen: .*$DIR/no/s.*: no such file" "s|^listen = shm.*|listen = shm:$DIR/no/s|"
checks "a file in the place of the socket" "listen: .*there is a file that is no socket" "s|^listen = shm.*|listen = shm:$CONF|"
checks "a key that is not there" "no such file or directory; type: wekactl keys init" "s|^key_file = .*|key_file = $DIR/no|"
sed "s|^listen = tcp.*|listen = tcp://192.0.2.1:7010|" "$CONF" >"$DIR/changed.conf"
passes "--check-config: an address that is not there yet is named" "192.0.2.1:7010.*: the start would wait for it" "$DIR/changed.conf"
passes "and is no mistake" "changed.conf: fine$" "$DIR/changed.conf"
check "nothing was touched" ctl ls /

# ---- exit statuses -----------------------------------------------------------------------------------
exits() { # STATUS COMMAND...
	wanted=$1
	shift
	"$@" >"$DIR/exit.out" 2>&1 </dev/null
	is "exit status of: $(echo "$*" | sed "s|$BIN/||; s|$DIR/||g")" "$wanted" $?
}
ask="$CTL --connect $SHM --key $DIR/key"
exits 0 "$CTL" --help
exits 0 "$CTL" --version
exits 0 $ask ls /
exits 0 $ask status
exits 0 $ask --json status
exits 0 $ask clients
exits 0 $ask space
exits 0 $ask --once top
exits 1 $ask cat /nothing
exits 1 $ask stat / /nothing
exits 1 "$CTL" --connect "shm:$DIR/nobody" --key "$DIR/key" status
exits 1 "$CTL" --config "$DIR/no.conf" status
exits 1 "$CTL" --connect "shm:$DIR/nobody" --key "$DIR/key" top
exits 1 $ask space /nothing
exits 1 "$CTL" --config "$CONF" support-bundle "$CONF"
exits 1 "$CTL" format "$D0"
exits 1 "$CTL" --config "$CONF" keys list
exits 2 "$CTL"
exits 2 "$CTL" --no-such-option
exits 2 "$CTL" frobnicate
exits 2 $ask cat
exits 2 $ask status soon
exits 2 $ask status 1 2
exits 2 $ask top 0
exits 2 $ask clients now
exits 2 "$CTL" support-bundle one two
exits 2 "$CTL" --shards 3 format "$D0"
exits 2 "$CTL" --threads 0 import a b
exits 2 "$CTL" drives frobnicate
exits 2 "$CTL" --config "$CONF" keys frobnicate
exits 2 "$CTL" dump nonsense "$D0"
exits 0 "$APP" --help
exits 0 "$APP" --list-keys
exits 0 "$APP" --check-config --config "$CONF"
exits 1 "$APP" --check-config --config "$DIR/no.conf"
exits 1 "$APP" --config "$DIR/no.conf"
exits 2 "$APP" --no-such-option
exits 2 "$APP" too many
exits 0 "$BIN/weka-bench" --help
exits 2 "$BIN/weka-bench" --no-such-option
check "stop: 0" stop
exits 0 "$CTL" check "$D0"
exits 1 "$CTL" check "file:$DIR/key"
finish

# SPDX-License-Identifier: BSD-2-Clause-Patent
# shellcheck shell=sh
# What the end-to-end scripts share: an appliance on two file: drives in a directory of its own,
# started and stopped; "ok NAME" and "not ok NAME" lines; nothing is left behind.
set -u

: "${BUILD:=build}"
# A read that brought nothing must not find what an earlier one left (nvme/soft/nvme_poison.c).
export WEKA_POISON_READS="${WEKA_POISON_READS:-1}"
# Nothing may be written into memory that a client has given back, either (client-lib/client_poison.c).
export WEKA_POISON_WINDOWS="${WEKA_POISON_WINDOWS:-1}"
BIN=$(realpath "$BUILD/release/bin")
DIR=$(mktemp -d "${TMPDIR:-/tmp}/weka-e2e.XXXXXX")
CONF=$DIR/weka.conf
SHM=shm:$DIR/weka.sock
# A script uses this port and the next three, as several scripts run at once: run.sh numbers those, so
# that no two of them have the same.  They are below 32768: the kernel gives the ports from there on to
# connecting sockets.
: "${WEKA_SLOT:=$(($$ / 100))}"
PORT=${WEKA_TEST_PORT:-$((12000 + ($$ % 100 * 50 + WEKA_SLOT % 50) * 4))}
TCP=tcp://127.0.0.1:$PORT
DAEMON=
# APP_CORES: how many cores the appliance has.  Each script has a number of its own for when nobody
# asks, so that short runs see 1, 2 and 4; long ones ask for each.
failures=0

cleanup() {
	[ -z "$DAEMON" ] || kill -9 "$DAEMON" 2>/dev/null
	chmod -R u+rwX "$DIR" 2>/dev/null
	rm -rf "$DIR"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

ok() { echo "ok $1"; }
not_ok() {
	failures=$((failures + 1))
	echo "not ok $1"
	[ $# -lt 2 ] || printf '  %s\n' "$2"
}
# check NAME COMMAND...: the command succeeds.
check() {
	name=$1
	shift
	# Not in a subshell: start and stop remember the daemon.
	if "$@" >"$DIR/check.out" 2>&1; then ok "$name"; else not_ok "$name" "$(tail -5 "$DIR/check.out")"; fi
}
# is NAME WANTED GOT: the same text.
is() {
	if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "it is: ${3:-nothing}${2:+
  not: $2}"; fi
}
# refuses NAME TEXT COMMAND...: it fails, with one line on stderr (but for the daemon's "info") that
# holds TEXT.
refuses() {
	name=$1 text=$2
	shift 2
	if err=$(timeout 120 "$@" 2>&1 >"$DIR/refused.out" </dev/null); then
		not_ok "$name" "it succeeded"
	elif err=$(printf '%s\n' "$err" | grep -v ': info: '); [ "$(printf '%s\n' "$err" | wc -l)" != 1 ]; then
		not_ok "$name" "more than one line: $err"
	elif ! printf '%s' "$err" | grep -qi -- "$text"; then
		not_ok "$name" "no '$text' in: $err"
	else
		ok "$name"
	fi
}
finish() { [ $failures = 0 ]; exit; }

write_conf() { # DRIVE...
	{
		for d in "$@"; do echo "drive = $d"; done
		echo "listen = $SHM"
		echo "listen = $TCP"
		echo "key_file = $DIR/key"
		echo "cache = ${CACHE:-64M}"
		echo "core = none"
		echo "cores = ${APP_CORES:-1}"
	} >"$CONF"
	[ -f "$DIR/key" ] || (umask 077; echo "$(od -An -tx1 -N32 /dev/urandom | tr -d ' \n')" >"$DIR/key")
}

start() { # returns when the appliance answers
	# RUN_AS: a command before it, such as one that makes it an ordinary user; clients are the same.
	${RUN_AS:-} "$BIN/weka-appliance" --config "$CONF" >>"$DIR/daemon.log" 2>&1 &
	DAEMON=$!
	n=0
	until ctl status >/dev/null 2>&1; do
		n=$((n + 1))
		if ! kill -0 "$DAEMON" 2>/dev/null || [ $n -gt 4000 ]; then
			echo "appliance does not start:" && tail -5 "$DIR/daemon.log"
			return 1
		fi
		sleep 0.05
	done
}

stop() { # SIGTERM: a clean stop, whose exit status is returned
	kill -TERM "$DAEMON"
	wait "$DAEMON"
	code=$?
	DAEMON=
	return $code
}

crash() {
	kill -9 "$DAEMON"
	wait "$DAEMON" 2>/dev/null
	DAEMON=
}

ctl() { ${RUN_AS:-} "$BIN/wekactl" --connect "${ADDRESS:-$SHM}" --key "$DIR/key" "$@"; }

number() { # GROUP KEY...: of the status; 0: it has none
	ctl --json status | /usr/bin/python3 -c 'import json, sys; s = json.load(sys.stdin)
for k in sys.argv[1:]:
    s = s[int(k)] if k.isdigit() and isinstance(s, list) else s.get(k, 0)
print(s)' "$@"
}
state() { # DRIVE: its state; "gone" when the store has it no more
	ctl --json status | /usr/bin/python3 -c 'import json, sys
print({d["number"]: d["state"] for d in json.load(sys.stdin)["drives"]}.get(int(sys.argv[1]), "gone"))' "$1"
}
until_state() { # DRIVE STATE
	n=0
	until [ "$(state "$1")" = "$2" ]; do
		n=$((n + 1))
		[ $n -lt 600 ] || { ctl status; return 1; }
		sleep 0.1
	done
}
# eventually COMMAND...: it succeeds within a while.
eventually() {
	n=0
	until "$@"; do
		n=$((n + 1))
		[ $n -lt 1200 ] || return 1
		sleep 0.1
	done
}
# Nothing is written any more: a write would make a drive's file that is cut as long as before.
quiet() {
	n=0 was=
	until [ "$was" = "$(number bytes drive_written)" ]; do
		n=$((n + 1))
		[ $n -lt 60 ] || return 1
		was=$(number bytes drive_written)
		sleep 2
	done
}

# Everything that must be the same of two trees: names, types, modes, sizes, times, targets, bytes.
describe() {
	(cd "$1" && find . -printf '%p|%y|%m|%T@|%l' \( -type f -printf '|%s\n' -o -printf '\n' \) | LC_ALL=C sort)
	(cd "$1" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0r sha256sum)
}
same_trees() {
	describe "$1" >"$DIR/tree.a"
	describe "$2" >"$DIR/tree.b"
	diff "$DIR/tree.a" "$DIR/tree.b" >"$DIR/tree.diff" || { head -5 "$DIR/tree.diff"; return 1; }
}

# A tree with every size at which something changes, odd names, modes, times, links.
make_tree() { # DIR FILES
	mkdir -p "$1/sub/deeper" "$1/empty"
	for size in 0 1 511 512 513 4095 4096 4097 8192 65536 524287 524288 524289 1048577 4194304 4194305 9000001; do
		head -c $size /dev/urandom >"$1/size-$size"
	done
	/usr/bin/python3 -c 'import os, sys
for i in range(int(sys.argv[2])):
    with open(f"{sys.argv[1]}/sub/file {i}", "wb") as f:
        f.write(os.urandom(i * 37 % 9000))' "$1" "$2"
	long=$(printf '%0255d' 7)
	echo long >"$1/sub/$long"
	printf 'bytes' >"$1/sub/$(printf 'not \377 utf-8')"
	echo new >"$1/sub/deeper/with
newline"
	ln -s ../size-1 "$1/sub/link"
	ln -s "$(printf '%0600d' 1)" "$1/sub/long-link"
	ln -s nowhere "$1/dangling"
	chmod 0640 "$1/size-1"
	chmod 0755 "$1/size-513"
	touch -d '2001-02-03 04:05:06.123456789' "$1/size-4096" "$1/sub/deeper"
	touch -h -d '1999-12-31 23:59:59' "$1/dangling"
	chmod 0500 "$1/empty"
}

# ---- drives that come and go, under load ----

drives() { ctl --json status | grep -o '"serial"' | wc -l; }
# Writes a byte over blocks of a file that the daemon may have open: all but headers, or from BLOCK on.
overwrite() { /usr/bin/python3 test/e2e/overwrite.py "$@"; } # FILE BYTE [BLOCK COUNT]
# Fills a file that is a drive, and is shorter now, with what it had; past the page cache, as overwrite.py.
put_back() { # COPY FILE
	dd if="$1" of="$2" conv=notrunc bs=1M oflag=direct 2>/dev/null || dd if="$1" of="$2" conv=notrunc bs=1M 2>/dev/null
}
said() { # TEXT: the daemon says so within a while
	n=0
	until grep -q "$1" "$DIR/daemon.log"; do
		n=$((n + 1))
		[ $n -lt 2400 ] || return 1
		sleep 0.05
	done
}
# Checks that all files that a loader was told are stored, "PATH SUM" a line in told.*, have their sum.
all_there() {
	cat "$DIR"/told.* | while read -r path sum rest; do
		[ "$(ctl cat "$path" | sha256sum)" = "$sum  $rest" ] || { echo "$path"; return 1; }
	done
}

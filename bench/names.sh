#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# One directory that grows tenfold, from 1,000 names to FILES (1000000), on a file: drive in NAMES_DIR, with a
# cache of half a per cent of what the index then takes (4 MiB at least): weka-bench names --json into
# NAMES_DIR/rows, by an appliance that is started anew at each size.  Each size has two rows of reads: the first
# follows what was created there, the second the first.  Then it is killed with SIGKILL, started again, and the
# time until it answers is told.  A run that was cut off between two phases goes on where it was (in a rename or an
# unlink: not; begin anew): the drive, the rows and the key stay in NAMES_DIR.
# NAMES_BYTES=228: of the index, a name: live_bytes of `wekactl status` with 300,000 of them, divided by that.
# NAMES_DRIVE=40G: bytes of the drive; NAMES_SECONDS=2: of each phase; files have NAMES_LEAST=0 to NAMES_SIZE=100 bytes;
# NAMES_VS="/mnt/xfs /mnt/ext4": local directories to compare with; the plot is NAMES_DIR/names.svg.
set -eu
cd "$(dirname "$0")/.."
: "${BUILD:=build}" "${FILES:=1000000}" "${NAMES_DIR:=$BUILD/names}" "${NAMES_DRIVE:=4G}"
: "${NAMES_SECONDS:=2}" "${NAMES_SIZE:=100}" "${NAMES_LEAST:=0}" "${NAMES_VS:=}" "${NAMES_BYTES:=228}"
mkdir -p "$NAMES_DIR"
dir=$(realpath "$NAMES_DIR") bin=$(realpath "$BUILD/release/bin")
drive="file:$dir/d0?size=$NAMES_DRIVE" shm=shm:$dir/weka.sock daemon=
trap '[ -z "$daemon" ] || kill -9 "$daemon" 2>/dev/null' EXIT
trap 'exit 130' INT TERM

ctl() { "$bin/wekactl" --connect "$shm" --key "$dir/key" "$@"; }
now() { date +%s.%N; }
since() { awk "BEGIN { printf \"%.2f\", $(now) - $1 }"; }

start() { # CACHE
	cat >"$dir/conf" <<-END
		drive = $drive
		listen = $shm
		key_file = $dir/key
		cache = $1
		staging = 16M
		core = none
		ops_max = $(($1 / 131072 < 512 ? $1 / 131072 : 512))
	END
	"$bin/weka-appliance" --config "$dir/conf" >>"$dir/log" 2>&1 &
	daemon=$!
	until ctl status >/dev/null 2>&1; do
		kill -0 "$daemon" 2>/dev/null || { tail -3 "$dir/log" >&2; exit 1; }
		sleep 0.01
	done
}

# In MiB, as the kernel counts: its own, and at most with what clients lent it through shared memory.
memory() {
	awk '/^Rss(Anon|File)/ { own += $2 } /^VmHWM/ { most = $2 }
	     END { printf "memory %d MiB (%d at most, its clients'"'"' included)", own / 1024, most / 1024 }' "/proc/$daemon/status"
}

names() { # FILES OPTIONS...
	"$bin/weka-bench" names --json --connect "$shm" --key "$dir/key" --prefix /names --files "$@" \
		--size "$NAMES_SIZE" --least "$NAMES_LEAST" --seconds "$NAMES_SECONDS" --cores=-1,-1
}

[ -f "$dir/key" ] || (umask 077; od -An -tx1 -N32 /dev/urandom | tr -d ' \n' >"$dir/key")
[ -f "$dir/d0" ] || "$bin/wekactl" format "$drive" >/dev/null
for fs in $NAMES_VS; do set -- "$@" --vs "$fs"; done

n=1000
while [ "$n" -le "$FILES" ]; do
	cache=$((n * NAMES_BYTES / 200 >> 20 << 20))
	[ "$cache" -ge 4194304 ] || cache=4194304
	if ! grep -qs "\"files\":$n,\"phase\":\"unlink\",\"transport\":\"shm\"" "$dir/rows"; then
		start "$cache"
		began=$(now)
		names "$n" --phases read "$@" >"$dir/new"
		names "$n" "$@" >>"$dir/new"
		printf '%d names, cache %d MiB: %s s; %s\n' "$n" $((cache >> 20)) "$(since "$began")" "$(memory)"
		cat "$dir/new" >>"$dir/rows"
		kill -9 "$daemon"
		wait "$daemon" 2>/dev/null || :
		daemon=
	fi
	last=$cache n=$((n * 10))
done
began=$(now)
start "$last"
printf 'mounted after SIGKILL in %s s; %s\n' "$(since "$began")" "$(memory)"
ctl --long status | grep -i "drive\|page\|log" || :
kill -TERM "$daemon"
wait "$daemon"
daemon=
awk -f bench/names_plot.awk "$dir/rows" >"$dir/names.svg"
echo "rows: $dir/rows; plot: $dir/names.svg"

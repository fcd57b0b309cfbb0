#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# The files that one warm batch read (64 files of 4 KiB by name, over shm) and one put (a new file of
# 4 KiB, until it is acknowledged) run through, from the client library to the drive and back: the
# reading order of ARCHITECTURE.md.  By callgrind: the appliance's core and the fabric's client in
# test/tools/cores_clock, the library in test/tools/way_client, beside an appliance.  bench/way.py
# says which file counts.  Left out are base/, the vocabulary of all others, and nvme/soft, which
# stands for the drive.  Takes some minutes.
# LISTS=yes: also compares with ARCHITECTURE.md, and fails if they differ.
set -eu
cd "$(dirname "$0")/.."
: "${BUILD:=build}"
bin=$(realpath "$BUILD/release/bin") tools=$BUILD/release/test/tools
command -v valgrind >/dev/null || { echo "this needs valgrind: apt install valgrind" >&2; exit 1; }
dir=$(mktemp -d) daemon=
trap '[ -z "$daemon" ] || kill -9 "$daemon" 2>/dev/null; rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
. bench/appliance.sh

grind() { # OUT COMMAND...
	out=$1
	shift
	valgrind --tool=callgrind --callgrind-out-file="$dir/$out" "$@" >"$dir/log" 2>&1 || { tail -5 "$dir/log" >&2; exit 1; }
}
core() { # OUT SHAPE FILES COUNT
	grind "$1" "$tools/cores_clock" --drive mem:512M --crossing 0 --only "$2" --files "$3" --count "$4" 1
}
core idle.few idle 1 2000
core idle.many idle 1 6000
core read.few name 64 8192
core read.many name 64 24576
core put.few create 1 512
core put.many create 1 1536

start_appliance
for length in few:100 many:300; do
	grind "client.read.${length%:*}" "$tools/way_client" "$shm" "$dir/key" read 64 "${length#*:}"
	grind "client.put.${length%:*}" "$tools/way_client" "$shm" "$dir/key" put 1 "${length#*:}"
done

# With the warm-up of a quarter that cores_clock makes: 320 batches of 64, 1280 puts.  Up to 16 puts
# share a turn, and a log block.
status=0
for name in read put; do
	if [ $name = read ]; then share=0.9 requests=320; else share=0.06 requests=1280; fi
	{
		python3 bench/way.py $share $requests "$dir/$name.few" "$dir/$name.many" "$dir/idle.few" "$dir/idle.many"
		python3 bench/way.py 0.9 200 "$dir/client.$name.few" "$dir/client.$name.many"
	} | grep -vE '^(base|nvme/soft)/' | sort -k 1,1 -u >"$dir/way"
	echo "$name: $(grep -c '^[^ ]*\.c ' "$dir/way") files, and inline functions of $(grep -c '^[^ ]*\.h ' "$dir/way") headers"
	echo "(instructions a request; the functions with the most)"
	sed 's/^/  /' "$dir/way"
	[ -n "${LISTS:-}" ] || continue
	sed -n "/^### The way of a $name/,/^##/p" ARCHITECTURE.md | grep -o '`[a-z_/-]*\.c`' | tr -d '`' | sort -u >"$dir/listed"
	grep -o '^[^ ]*\.c ' "$dir/way" | tr -d ' ' | sort -u | diff "$dir/listed" - >"$dir/diff" ||
		{ echo "not the same: ARCHITECTURE.md lists other files (<) than those measured (>):"; cat "$dir/diff"; status=1; }
done
exit $status

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# The runs whose figures stand in bench/RESULTS.md, as a table for it.  BENCH_SECONDS and
# BENCH_RUNS: how long; BENCH_DIR: the local directory for vs_posix (default: the build's);
# BENCH_ONLY: an extended regular expression, which runs.
set -u
: "${BUILD:=build}" "${BENCH_SECONDS:=2}" "${BENCH_RUNS:=5}" "${BENCH_DIR:=$BUILD}" "${BENCH_ONLY:=.}"
bench=$BUILD/release/bin/weka-bench
out=$(mktemp)
trap 'rm -f "$out"' EXIT
failed=0

# run NAME OPTIONS...: a row of the table; the line for people goes to stderr as progress.
run() {
	name=$1
	shift
	echo "$name" | grep -qE "$BENCH_ONLY" || return
	echo "weka-bench $*" >&2
	if ! "$bench" "$@" --json --seconds "$BENCH_SECONDS" --runs "$BENCH_RUNS" >"$out"; then
		failed=1
		echo "| $name | failed | | | | | | |"
		return
	fi
	awk -v name="$name" '
	function field(key,    at, rest) {
		at = index($0, "\"" key "\":")
		if (!at) return ""
		rest = substr($0, at + length(key) + 3)
		sub(/[,}].*/, "", rest)
		return rest
	}
	function human(v) {
		v += 0 # a number, not text
		if (v >= 1e9) return sprintf("%.2f G", v / 1e9)
		if (v >= 1e6) return sprintf("%.2f M", v / 1e6)
		if (v >= 1e3) return sprintf("%.1f K", v / 1e3)
		return sprintf("%.0f", v)
	}
	function ratio(v) { return v == "" ? "" : sprintf("%.2f", v) }
	/^\{/ {
		printf "| %s | %s (%s - %s) | %sB | %.2f | %.2f | %s | %s | %s |\n", name,
			human(field("ops_per_s")), human(field("ops_per_s_min")), human(field("ops_per_s_max")),
			human(field("bytes_per_s")), field("p50_ns") / 1e3, field("p99_ns") / 1e3,
			ratio(field("vs_pipe")), ratio(field("vs_copy")), ratio(field("vs_posix"))
	}' "$out"
}

echo '| run | a second (lowest - highest) | bytes a second | p50 us | p99 us | vs_pipe | vs_copy | vs_posix |'
echo '|---|---|---|---|---|---|---|---|'
for transport in shm tcp; do
	t="--transport $transport"
	# shellcheck disable=SC2086 # $t is two words
	{
		run "ping, depth 1, $transport" ping $t
		run "randread 4 KiB, depth 1, $transport" randread --depth 1 $t --vs "$BENCH_DIR"
		run "randread 4 KiB, depth 32, $transport" randread $t --vs "$BENCH_DIR"
		run "seqread 128 KiB, depth 8, $transport" seqread $t --vs "$BENCH_DIR"
		run "seqwrite 1 MiB, depth 8, durable, $transport" seqwrite $t --vs "$BENCH_DIR"
		run "smallfile 4 KiB, batch 256, $transport" smallfile $t --vs "$BENCH_DIR"
		# Not on BENCH_DIR: some file systems take a millisecond to find a free inode.
		run "create 1 KiB, batch 256, durable (tmpfs: not), $transport" create $t --vs /dev/shm
		run "epoch, 10,000 files of 4-128 KiB, batch 256, $transport" epoch $t --vs "$BENCH_DIR"
	}
done
run "nvme 4 KiB, depth 1" nvme --depth 1
run "nvme 4 KiB, depth 32" nvme
run "nvme 128 KiB, depth 8" nvme --size 128K --depth 8
run "pipe 4 KiB, depth 32" pipe
run "pipe 128 KiB, depth 8" pipe --size 128K --depth 8
exit $failed

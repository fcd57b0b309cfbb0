# SPDX-License-Identifier: BSD-2-Clause-Patent
# shellcheck shell=sh
# The runs of bench/guest_rdma.sh.
. test/e2e/lib.sh
. test/guest/in/verbs.sh

HOST=10.0.0.1
network $HOST

# A million bytes a second.
perftest() { # SIZE
	n=$((BENCH_BYTES / $1 + 5))
	ib_write_bw -F -d rxe0 -s "$1" -n $n >"$DIR/perftest.server" 2>&1 &
	until grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6; do :; done # it listens at 18515
	ib_write_bw -F -d rxe0 -s "$1" -n $n $HOST >"$DIR/perftest" 2>&1 || cat "$DIR/perftest" >&2
	wait $!
	awk -v size="$1" '$1 == size { printf "%.2f\n", $4 * 1.048576 }' "$DIR/perftest"
}
ours() { # SIZE DEPTH
	weka-bench fabric --connect rdma://$HOST:7200 --size "$1" --depth "$2" --seconds "${BENCH_SECONDS:-2}" --runs 1 --json >"$DIR/ours" || cat "$DIR/ours" >&2
	sed -n 's/.*"bytes_per_s": *\([0-9.e+]*\).*/\1/p' "$DIR/ours" | awk '{ printf "%.2f\n", $1 / 1e6 }'
}
median() { sort -n | awk '{ v[NR] = $1 } END { printf "%.2f (%.2f - %.2f)", v[int((NR + 1) / 2)], v[1], v[NR] }'; }

for row in $BENCH_ROWS; do
	size=${row%,*} depth=${row#*,}
	for run in $(seq "$BENCH_RUNS"); do
		theirs=$(perftest "$size")
		mine=$(ours "$size" "$depth")
		echo "${mine:-0} ${theirs:-0}"
	done | awk '$2 > 0 { print $1, $2, $1 / $2 }' >"$DIR/runs"
	check "$size bytes, depth $depth: $(cut -d' ' -f1 "$DIR/runs" | median) MB/s," \
		[ "$(wc -l <"$DIR/runs")" = "$BENCH_RUNS" ]
	echo "#   ib_write_bw $(cut -d' ' -f2 "$DIR/runs" | median), ratio $(cut -d' ' -f3 "$DIR/runs" | median)"
done
finish

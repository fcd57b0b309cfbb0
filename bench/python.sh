#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# What a sample costs more in Python than in C: batches of COUNT files of SIZE bytes, read by name,
# one after the other, in turn by test/tools/batch_clock and by bench/python_batch.py, from one
# appliance whose drive is a file in memory, over shm.  Each round counts by its fast turns; the figures are medians of the rounds.
set -eu
cd "$(dirname "$0")/.."
: "${BUILD:=build}" "${COUNT:=256}" "${SIZE:=4096}" "${TURNS:=400}" "${ROUNDS:=9}" "${PYTHON:=/usr/bin/python3}"
bin=$(realpath "$BUILD/release/bin") clock=$BUILD/release/test/tools/batch_clock
[ -x "$clock" ] || { echo "bench/python.sh: there is no $clock: make $clock" >&2; exit 1; }
PYTHONPATH=$(realpath "$BUILD/release/python")
export PYTHONPATH
dir=$(mktemp -d /dev/shm/weka-bench.XXXXXX) daemon=
trap '[ -z "$daemon" ] || kill -9 "$daemon" 2>/dev/null; rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
. bench/appliance.sh
start_appliance
mkdir "$dir/s"
n=0
while [ $n -lt "$COUNT" ]; do
	head -c "$SIZE" /dev/urandom >"$dir/s/$n"
	n=$((n + 1))
done
ctl -q import "$dir/s" /s >/dev/null

# A twentieth of the turns is faster: what other work on the machine disturbs least.
fast() { sort -n | awk '{ v[NR] = $1 } END { print v[int(NR / 20) + 1] }'; }
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
round=0
: >"$dir/rounds"
while [ $round -lt "$ROUNDS" ]; do
	c=$("$clock" "$shm" "$dir/key" /s "$COUNT" "$TURNS" | fast)
	python=$("$PYTHON" bench/python_batch.py "$shm" "$dir/key" /s "$COUNT" "$TURNS" | fast)
	echo "$c $python" >>"$dir/rounds"
	round=$((round + 1))
done
awk -v n="$COUNT" '{ print $1 / n / 1000 }' "$dir/rounds" | median | sed 's/^/C, a sample: /; s/$/ us/'
awk -v n="$COUNT" '{ print $2 / n / 1000 }' "$dir/rounds" | median | sed 's/^/Python, a sample: /; s/$/ us/'
awk -v n="$COUNT" '{ print ($2 - $1) / n / 1000 }' "$dir/rounds" | median | sed 's/^/Python over C: /; s/$/ us/'

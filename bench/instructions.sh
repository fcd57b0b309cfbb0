#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Instructions that submit and poll of one aligned 4 KiB read cost in nvme/ itself, the soft controller
# left out, 32 a doorbell; by callgrind, so the same on a busy machine.  Two runs of different
# length: their difference holds no set-up.
set -eu
: "${BUILD:=build}"
bench=$BUILD/release/bin/weka-bench
command -v valgrind >/dev/null || { echo "bench-instructions needs valgrind: apt install valgrind" >&2; exit 1; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# count N: "function instructions" of a run of N reads (and a warm-up of as many).
count() {
	valgrind --tool=callgrind --callgrind-out-file="$tmp/out" "$bench" nvme --drive 'mem:16M?copy=off' \
		--depth 32 --count "$1" --runs 1 --cores=-1,-1 >"$tmp/log" 2>&1 || { cat "$tmp/log" >&2; exit 1; }
	callgrind_annotate --threshold=100 --show-percs=no "$tmp/out" >"$tmp/text"
	awk '
	$1 ~ /^[0-9,]+$/ && $2 ~ /:/ {
		gsub(",", "", $1)
		n = split($2, part, ":")
		sum[part[n]] += $1
		if ($2 ~ /nvme\/[a-z]*\/nvme_[a-z_]*\.c:/ && $2 !~ /nvme_soft/ && $2 !~ /nvme_bare/) ours[part[n]] = 1
	}
	END { for (f in ours) print f, sum[f] }' "$tmp/text" | sort
}

few=3200 many=35200
count $few >"$tmp/few"
count $many >"$tmp/many"
echo "instructions of nvme/ for one read of 4 KiB (submit, ring, poll; 32 a ring; asserts on):"
# A run and its warm-up: twice the count.
join -a 2 "$tmp/few" "$tmp/many" | awk -v reads=$((2 * (many - few))) '
	{ each = (NF == 3 ? $3 - $2 : $2) / reads; total += each
	  if (each >= 0.05) printf "  %7.1f  %s\n", each, $1 | "sort -rn" }
	END { close("sort -rn"); printf "  %7.1f  in all\n", total }'

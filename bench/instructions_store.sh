#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Instructions of the appliance's core for one file of 4 KiB that is created by name, 64 a request, and for
# one that is removed: the store, the rest of the core, libraries; by callgrind, so the same on a busy
# machine.  Two runs of different length: their difference holds no set-up.
# SHAPES="create unlink"; TOP=25: so many functions of each.
set -eu
: "${BUILD:=build}" "${SHAPES:=create unlink}" "${TOP:=25}"
clock=$BUILD/release/test/tools/cores_clock
command -v valgrind >/dev/null || { echo "this needs valgrind: apt install valgrind" >&2; exit 1; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# count SHAPE N: "function instructions" of a run of N files (and a warm-up of a quarter of them).
count() {
	valgrind --tool=callgrind --callgrind-out-file="$tmp/out" "$clock" --drive mem:512M --crossing 0 \
		--only "$1" --count "$2" 1 >"$tmp/log" 2>&1 || { cat "$tmp/log" >&2; exit 1; }
	callgrind_annotate --threshold=100 --show-percs=no "$tmp/out" >"$tmp/text"
	awk '
	$1 ~ /^[0-9,]+$/ && $2 ~ /:/ {
		gsub(",", "", $1)
		n = split($2, part, ":")
		sum[part[n]] += $1
		if (!(part[n] in where) || part[1] ~ /\.c$/) where[part[n]] = part[1]
	}
	END { for (f in sum) print f "@" where[f], sum[f] }' "$tmp/text" | sort
}

few=8192 many=40960
for shape in $SHAPES; do
	count "$shape" $few >"$tmp/few"
	count "$shape" $many >"$tmp/many"
	echo "instructions for one file, $shape (asserts on; the client is not counted):"
	# With the warm-up; what is removed was made before, all of it.
	join -a 2 "$tmp/few" "$tmp/many" | awk -v files=$((many - few)) -v shape="$shape" -v top="$TOP" '
	{ each = (NF == 3 ? $3 - $2 : $2) / files / (shape == "unlink" ? 1 : 1.25)
	  split($1, part, "@")
	  if (part[2] ~ /test\/tools|fab_codec_call|fabric\/fab_call|stdio|libio/) next
	  folder = part[2] ~ /(^|\/)(meta|appliance|fabric|nvme|base)\// ? part[2] : "libraries"
	  sub(/^.*\/main\//, "", folder); sub(/^\.\//, "", folder); sub(/\/.*/, "", folder)
	  sum[folder] += each; all += each
	  if (each >= 1) printf "  %8.0f  %-10s %s\n", each, folder, part[1] | ("sort -rn | head -" top) }
	END { close("sort -rn | head -" top)
	  for (f in sum) printf "  %8.0f  in %s\n", sum[f], f
	  printf "  %8.0f  in all\n", all }'
done

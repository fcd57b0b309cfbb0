#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# What a scrape of the metrics costs: its time, the CPU time of the whole daemon, and what it does to
# reads of 4 KiB when it comes each second.  Reads without and with scrapes in turn, ROUNDS times,
# SECONDS_EACH long.
# usage: bench/scrape.sh [ROUNDS [SECONDS_EACH]]
set -eu
: "${BUILD:=build}"
rounds=${1:-5} seconds=${2:-5}
bin=$BUILD/release/bin
dir=$(mktemp -d)
port=$((12000 + $$ % 5000 * 4))
daemon='' scraper=''
end() {
	for p in $daemon $scraper; do kill "$p" 2>/dev/null || true; done
	rm -rf "$dir"
}
trap end EXIT
trap 'exit 130' INT TERM

cat >"$dir/conf" <<END
drive = mem:1G
listen = shm:$dir/sock
key_file = $dir/key
metrics = 127.0.0.1:$port
END
"$bin/wekactl" --config "$dir/conf" keys init >/dev/null 2>&1
"$bin/weka-appliance" --config "$dir/conf" 2>"$dir/log" &
daemon=$!
n=0
until curl -sf "http://127.0.0.1:$port/metrics" >"$dir/page"; do
	n=$((n + 1))
	[ $n -lt 100 ] || { tail -n 3 "$dir/log"; exit 1; }
	sleep 0.1
done
# A snapshot is taken at most twice a second, so that a scrape sooner would cost less.
scrapes() { # COUNT PAUSE: milliseconds of each
	i=0
	while [ $i -lt "$1" ]; do
		sleep "$2"
		curl -s -o /dev/null -w '%{time_total}\n' "http://127.0.0.1:$port/metrics"
		i=$((i + 1))
	done | awk '{ print $1 * 1000 }' | sort -n
}
told() { awk '{ v[NR] = $1 } END { printf "median %.2f ms, longest %.2f ms", v[int((NR + 1) / 2)], v[NR] }'; }
cpu_ns() { cat /proc/"$daemon"/task/*/schedstat | awk '{ sum += $1 } END { printf "%.0f", sum }'; }
reads() { # prints its p99 in nanoseconds
	"$bin/weka-bench" randread --connect "shm:$dir/sock" --key "$dir/key" --size 4096 --depth 1 \
		--seconds "$seconds" --runs 1 --file-bytes 256M --json 2>/dev/null | sed -n 's/.*"p99_ns":\([0-9]*\).*/\1/p'
}
echo "a page of $(wc -c <"$dir/page") bytes, $(grep -vc '^#' "$dir/page") values"
sleep 20 # the polling thread sleeps by now
before=$(cpu_ns)
sleep 12
idle=$(($(cpu_ns) - before))
before=$(cpu_ns)
echo "a scrape, idle: $(scrapes 20 0.6 | told)"
echo "CPU time of the daemon for it: $(echo "$(cpu_ns) $before $idle" | awk '{ printf "%.2f", ($1 - $2 - $3) / 20e6 }') ms"
reads >/dev/null
i=0
: >"$dir/without" && : >"$dir/with"
while [ $i -lt "$rounds" ]; do
	reads >>"$dir/without"
	scrapes 10000 1 >/dev/null &
	scraper=$!
	reads >>"$dir/with"
	kill "$scraper" 2>/dev/null || true
	scraper=
	i=$((i + 1))
done
for how in without with; do
	echo "p99 of a read of 4 KiB, $how scrapes: $(xargs <"$dir/$how") ns"
done

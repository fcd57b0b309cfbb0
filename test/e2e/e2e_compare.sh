#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# bench/compare.sh: figures of every system that can run here, as JSON and as a page; nothing is left
# behind, also after an interrupt in the middle.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

compare() { # NAME OPTION...
	to=$1
	shift
	COMPARE_DIR=$DIR PORT=$PORT BUILD=$BUILD bench/compare.sh --quick --only "4 KiB by name" --no-mlperf --out "$DIR/$to" "$@"
}
left() {
	ls -d "$DIR"/compare.* 2>/dev/null
	losetup -a 2>/dev/null | grep "$DIR"
	grep "$DIR" /proc/mounts
	pgrep -af -- "--config $DIR/compare"
}
# Prints what left() prints after a while: the kernel removes mounts, and then loop devices, some time
# after the last process of their namespace has ended.
stays() {
	n=0
	while [ -n "$(left)" ] && [ $n -lt 600 ]; do
		n=$((n + 1))
		sleep 0.1
	done
	left
}

if [ "${TEST_LENGTH:-long}" != short ]; then
check "a comparison" compare whole
is "nothing is left" "" "$(stays)"
targets() { /usr/bin/python3 -c '
import json, sys
figures = [f for f in map(json.loads, open(sys.argv[1])) if "figure" in f]
assert all(len(f["values"]) == 5 and f["median"] > 0 for f in figures), figures
print(len(figures))' "$DIR/whole.json"; }
fewest() { [ "$(targets)" -ge 5 ]; }
check "five runs of each system" fewest
page() { [ "$(grep -c '<svg ' "$DIR/whole.html")" = "$(targets)" ]; }
check "a bar for each on the page" page
same() { "$BIN/weka-bench" report "$DIR/whole.json" "$DIR/whole.json" | grep -q '^0 figures are outside'; }
check "a run beside itself has no difference" same

fi

# Interrupted as soon as it measures: the command's own group, as a terminal does it.
setsid env COMPARE_DIR="$DIR" PORT="$PORT" BUILD="$BUILD" bench/compare.sh --quick --no-mlperf --out "$DIR/cut" >"$DIR/cut.out" 2>&1 &
script=$!
n=0
until grep -q 'making the files of tcp' "$DIR/cut.out" || [ $n -gt 4000 ] || ! kill -0 $script 2>/dev/null; do
	n=$((n + 1))
	sleep 0.05
done
kill -TERM -$script
wait $script
is "an interrupt is its exit status" 130 $?
is "nothing is left after it" "" "$(stays)"
finish

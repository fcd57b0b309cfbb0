#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# weka-bench protect: every figure is there, two copies cost twice the bytes, a drive is lost and
# rebuilt, and nothing is left behind.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

protect() {
	TMPDIR=$DIR "$BIN/weka-bench" protect --seconds 0.05 --runs 2 --file-bytes 24M --drive-size 256M --json "$@" \
		>"$DIR/figures" 2>"$DIR/err" || { cat "$DIR/err"; return 1; }
}
there() { ls -d "$DIR"/weka-bench.* /dev/shm/weka-bench.* 2>/dev/null; }
# Directories that were not there before, and stay: those of another program that runs now, which
# may be any of /dev/shm, go with it.
nothing_left() {
	n=0
	new=$(there | grep -vxF "$before")
	while [ "$new" ]; do
		n=$((n + 1))
		[ $n -lt 180 ] || return 1
		sleep 1
		new=$(ls -d $new 2>/dev/null) || : # some have gone
	done
}
before=$(there; echo none)

check "it runs" protect
check "nothing is left" nothing_left
figures() { /usr/bin/python3 - "$DIR/figures" <<-'END'
	import json, sys
	figures = [f for f in map(json.loads, open(sys.argv[1])) if "figure" in f]
	times = {}
	for f in figures:
	    assert f["median"] > 0, f
	    if f["unit"] == "times":
	        times.setdefault(f["figure"], {})[f["target"]] = f["median"]
	groups = sorted({f["group"] for f in figures})
	assert groups == ["A drive is lost", "Healthy", "Rebuild", "Write amplification"], groups
	assert len(times) == 2, times
	for name, by in times.items():
	    assert 1 <= by["none"] < 1.9 < by["mirror"] < 3.8, (name, by)
	print(len(figures))
END
}
is "all figures, and twice the bytes for two copies" 18 "$(figures)"
if [ "${TEST_LENGTH:-long}" != short ]; then
	check "on files of a directory" protect --dir "$DIR"
	check "nothing is left there" nothing_left
fi
refuses "a directory that is none" "No such file or directory" "$BIN/weka-bench" protect --dir "$DIR/nowhere"
finish

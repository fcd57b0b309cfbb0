#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# weka-bench protect: each scheme has all its figures, the bytes that it writes and the space that it
# takes are what arithmetic says, drives are lost and rebuilt while right bytes are read, and nothing is
# left behind.  No time is judged.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

protect() { # SCHEMES OPTION...
	schemes=$1
	shift
	TMPDIR=$DIR "$BIN/weka-bench" protect --protect "$schemes" --turn 4K,300K --seconds 0.02 --runs 1 \
		--file-bytes 12M --drive-size 32M "$@" >"$DIR/figures" 2>"$DIR/err" || { cat "$DIR/err"; return 1; }
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

# Zones of these small drives are 64 KiB, of which two blocks are the store's: it writes and takes up to a
# seventh more than arithmetic says, and some zones are still open.
figures() { # SCHEME...
	/usr/bin/python3 - "$DIR/figures" "$@" <<-'END'
	import json, sys
	figures = [f for f in map(json.loads, open(sys.argv[1])) if "figure" in f]
	losses = {"none": (1, 0), "mirror": (1, 1)}
	for f in figures:
	    assert f["median"] >= 0, f  # a run may end before its first request
	for scheme in sys.argv[2:]:
	    K, M = losses.get(scheme) or map(int, scheme.split("+"))
	    of = {(f["group"], f["figure"]): f for f in figures if f["target"] == scheme}
	    groups = {group for group, _ in of}
	    wanted = {"Written for a byte of a file", "Space", "All drives are there", "Before a loss"}
	    wanted |= {"A drive is lost", "Rebuild of a drive"} if M > 0 else set()
	    wanted |= {"Two drives are lost"} if M > 1 else set()
	    assert groups == wanted, (scheme, groups)

	    def value(group, name, ideal=None):
	        f = of[group, name]
	        assert ideal is None or abs(f["ideal"] - ideal) < 1e-6, (scheme, f, ideal)
	        return f["median"]

	    def within(low, v, high):
	        assert low <= v <= high, (scheme, low, v, high)

	    parity = M / K if K > 1 else 0
	    folded = value("Space", "of the file in folds", 100) / 100 if K > 1 else 0
	    within(0.5 if K > 1 else 0, folded, 1)
	    for name, turn in ("4 KiB", 4096), ("300 KiB", 300 << 10):
	        ideal = M + 1 + max(M + 1, 2) * 4096 / turn
	        once = value("Written for a byte of a file", f"turns of {name}, at once", ideal)
	        later = value("Written for a byte of a file", f"turns of {name}, when it is folded", ideal + parity)
	        within(0.97 * ideal, once, 1.5 * ideal)
	        within(0.4 * parity - 0.1, later - once, 1.3 * parity + 0.6)
	    space = folded * (K + M) / K + (1 - folded) * (M + 1)
	    within(0.95 * space, value("Space", "zones in use for a byte of a file", (K + M) / K), 1.5 * space)
	    within(10, value("Space", "of the drives for files", 100 * K / (K + M)), 100 * K / (K + M))
	    for lost, group in (1, "A drive is lost"), (2, "Two drives are lost"):
	        if lost > M:
	            continue
	        f = of[group, "read from drives for a byte read"]
	        # Some blocks were computed from K others; the store itself reads some more.
	        within(1 + 0.2 * (f["ideal"] - 1) - 0.02, f["median"], K + 1)
	print(len({f["target"] for f in figures}))
END
}
each() { # SCHEMES
	check "$1" protect "$1" --json
	is "figures of $1" "$(echo "$1" | tr , '\n' | wc -l)" "$(figures $(echo "$1" | tr , ' '))"
}

each none,mirror,2+1
each 4+2
if [ "${TEST_LENGTH:-long}" != short ]; then
	each 1+2,8+2
	check "on files of a directory" protect mirror,2+1 --dir "$DIR" --json
	is "figures of files" 2 "$(figures mirror 2+1)"
fi
# Three drives of 32 MiB have room for 21 MiB, less than the file and the writes in flight may need.
check "a table for people" protect mirror,none --drive-size 64M
is "a column for each scheme" "mirror none" "$(sed -n '3s/^ *//; 3s/  */ /p' "$DIR/figures")"
is "what is measured, and what arithmetic says" 2 "$(grep -c '^turns of 4 KiB, .* (4) .* (3)$' "$DIR/figures")"
check "nothing is left" nothing_left
bad_options() { # TEXT OPTION...
	text=$1
	shift
	"$BIN/weka-bench" protect "$@" >"$DIR/said" 2>&1 && return 1
	grep -q "$text" "$DIR/said" || { cat "$DIR/said"; return 1; }
}
check "refuses a scheme that is none" bad_options "'4+3' is none of: none, mirror, 1+2, K+1, K+2" --protect none,4+3
check "refuses too few drives" bad_options "need 8 drives" --protect 4+2 --drives 6
check "refuses a turn of parts of blocks" bad_options "is no multiple of 4096" --turn 4K,5000
refuses "a directory that is none" "No such file or directory" "$BIN/weka-bench" protect --protect none --dir "$DIR/nowhere"
finish

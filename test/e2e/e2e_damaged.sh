#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Files are damaged while the appliance serves: reads and the scrub find them, `wekactl damaged` lists
# them all, and status and log say as many; what is written anew or removed leaves the list.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

CACHE=16M
: "${APP_CORES:=2}"
for d in 0 1 2 3; do eval "D$d=file:$DIR/d$d?size=64M"; done
write_conf "$D0" "$D1" "$D2" "$D3"
echo "scrub_bytes_per_second = 0" >>"$CONF"
make_tree "$DIR/src" 700
check "format" "$BIN/wekactl" format --protect none "$D0" "$D1" "$D2" "$D3"
check "start" start
check "import" ctl -q import "$DIR/src" /tree
is "nothing is damaged" "" "$(ctl damaged 2>/dev/null)"

until_is() { # WANTED KEY...
	wanted=$1 n=0
	shift
	until [ "$(number "$@")" = "$wanted" ]; do
		n=$((n + 1))
		[ $n -lt 1200 ] || { echo "it is: $(number "$@")"; return 1; }
		sleep 0.1
	done
}
# Compares /tree in full: prints files that cannot be read, or have changed.
compare() {
	rm -rf "$DIR/out"
	ctl -q export /tree "$DIR/out" >/dev/null 2>&1
	python3 - "$DIR/src" "$DIR/out" <<'END'
import os, sys
src, out = map(os.fsencode, sys.argv[1:])
for d, _, names in os.walk(src):
    for n in names:
        p = os.path.join(d, n)
        q = os.path.join(out, os.path.relpath(p, src))
        if not os.path.islink(p) and not (os.path.isfile(q) and open(p, 'rb').read() == open(q, 'rb').read()):
            print(ascii(b'/tree/' + os.path.relpath(p, src)))
END
}
listed() { # as compare: what the list has
	ctl --json damaged | python3 -c 'import json, sys
for l in sys.stdin: print(ascii(json.loads(l)["path"].encode("latin-1")))'
}
# The list has what a comparison finds.  When much is found at once, the appliance may drop some of it until
# the next read (app_damaged.c): so everything is read again if something is not listed after a while.
same() { # NAME
	n=0
	until listed | LC_ALL=C sort >"$DIR/listed" && [ $n -gt 0 ] && cmp -s "$DIR/compared" "$DIR/listed"; do
		[ $((n % 20)) -gt 0 ] || compare | LC_ALL=C sort >"$DIR/compared"
		n=$((n + 1))
		[ $n -lt 600 ] || break
		sleep 0.1
	done
	is "$1" "$(cat "$DIR/compared")" "$(cat "$DIR/listed")"
}

# ---- met by reads ----

# Zeroes the first block of each small file of the MiB that has most of them, and no page of the index.
damage() { # DRIVE
	overwrite "$DIR/d$1" 0 $(places "$DIR/d$1" "$DIR/src/sub")
}
places() { # DRIVE DIRECTORY: "BLOCK 1" for each
	python3 - "$1" "$2" <<'END'
import os, sys
image, d = open(sys.argv[1], 'rb').read(), sys.argv[2]
# A file begins at the start of a block.
place = {image[at:at + 64]: at for at in range(0, len(image), 4096)}
of = {}
for n in os.listdir(d):
    p = os.path.join(d, n)
    if n.startswith('file ') and os.path.getsize(p) >= 1024:
        at = place.get(open(p, 'rb').read(64), -1)
        if at >= 0:
            of.setdefault(at >> 20, []).append(at)
for at in max(of.values(), key=len):
    print(at // 4096, 1)
END
}
damage 1
same "what reads have met is listed, all of it"
count=$(wc -l <"$DIR/listed")
[ "$count" -gt 20 ] && ok "which are many" || not_ok "which are many" "$count"
check "the status counts as many" until_is "$count" damage files
check "each is in the log, with its blocks" said "block 0 of the file: drive 1 block [0-9]* does not match its checksum"
named() { # when each line has found its place in the log
	n=0
	until [ "$(grep -o 'scrub: /tree/.*: block [0-9]* of the file' "$DIR/daemon.log" | sed 's/: block [0-9]* of the file$//' | sort -u | wc -l)" = "$count" ]; do
		n=$((n + 1))
		[ $n -lt 600 ] || return 1
		sleep 0.1
	done
}
check "as many are named there" named
ctl damaged 2>"$DIR/sum" >"$DIR/told"
grep -q '^/tree/.*: damaged: [0-9]* block.*; drive 1$' "$DIR/told" && ok "people can read it" || not_ok "people can read it" "$(ctl damaged 2>&1 | head -3)"
is "with a sum" "$count damaged files" "$(sed 's/,.*//' "$DIR/sum")"

# ---- mended ----

one=$(head -1 "$DIR/listed" | sed "s/^b.\/tree\///; s/.$//")
two=$(sed -n 2p "$DIR/listed" | sed "s/^b.\/tree\///; s/.$//")
check "one is written anew" ctl put "$DIR/src/$one" "/tree/$one"
check "one is removed" ctl rm "/tree/$two"
rm "$DIR/src/$two"
same "they leave the list"
check "and the status" until_is "$((count - 2))" damage files

# ---- met by the scrub ----

check "a clean stop" stop
sed -i '/^scrub/d' "$CONF"
echo "scrub_bytes_per_second = 1G" >>"$CONF"
damage 3
check "start" start
check "the scrub looks at everything" until_is True damage complete
ctl --json damaged | wc -l >"$DIR/before"
same "what it has found is all that a comparison finds"
is "before anybody read it" "$(wc -l <"$DIR/compared")" "$(cat "$DIR/before")"
check "the log says as many" said "a round has ended: $(wc -l <"$DIR/listed") damaged files"
check "so does the status" until_is "$(wc -l <"$DIR/listed")" damage files
check "a clean stop" stop
finish

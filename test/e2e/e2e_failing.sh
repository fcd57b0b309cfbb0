#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# A drive fails while it serves, and comes back: the log, the status and the list of damaged files
# say so, and say no more than is so.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

CACHE=16M
: "${APP_CORES:=2}"
for d in 0 1 2 3; do eval "D$d=file:$DIR/d$d?size=64M"; done
write_conf "$D0" "$D1" "$D2" "$D3"
echo "scrub_bytes_per_second = 256M" >>"$CONF"
make_tree "$DIR/src" 300
check "format" "$BIN/wekactl" format --protect none "$D0" "$D1" "$D2" "$D3"
check "start" start
check "import" ctl -q import "$DIR/src" /tree
check "a clean stop" stop
check "start" start

until_is() { # WANTED GROUP KEY...
	wanted=$1 n=0
	shift
	until [ "$(number "$@")" = "$wanted" ]; do
		n=$((n + 1))
		[ $n -lt 2400 ] || return 1
		sleep 0.05
	done
}

# ---- a drive that is gone ----

check "nothing is written" quiet
cp "$DIR/d2" "$DIR/copy"
: >"$DIR/d2"
ctl -q export /tree "$DIR/out" >/dev/null 2>&1 && not_ok "reads fail" || ok "reads fail"
check "the log names the drive, what was asked of it, and the NVMe status" \
	said "drive 2 (file:$DIR/d2?size=64M): .*read of block [0-9]* .*failed: NVMe status type 2h (media), code 81h: unrecovered read error"
check "the log says that it has failed, and what to do" said "drive 2 (.*): has failed: nothing can be read .*Check its power"
check "so does the status" until_is failed drives 2 health
is "the others are good" "good good good" "$(echo $(for d in 0 1 3; do number drives $d health; done))"
ctl status >"$DIR/page"
grep -q '^! drive 2 has failed, nothing can be read' "$DIR/page" && ok "on its page, too" || not_ok "on its page, too" "$(cat "$DIR/page")"
head -1 "$DIR/page" | grep -q '^! serving, degraded: drive 2 is failed' && ok "and in the headline" || not_ok "and in the headline" "$(head -1 "$DIR/page")"
list() {
	ctl --json damaged | python3 -c 'import json, sys
for l in sys.stdin: d = json.loads(l); print(ascii(d["path"].encode("latin-1")), d["damage"])' | LC_ALL=C sort >"$DIR/listed"
}
n=0 # what reads have met is looked at when it is known that the drive has failed
until list && [ -s "$DIR/listed" ] || [ $n -gt 600 ]; do n=$((n + 1)); sleep 0.1; done
[ -s "$DIR/listed" ] && ok "what reads have met is listed" || not_ok "what reads have met is listed"
is "as unreachable, not as damaged" "unreachable" "$(sed 's/.* //' "$DIR/listed" | sort -u)"
is "nothing is called damaged" "0 0" "$(number scrub bad_blocks) $(number scrub bad_pages)"
lines=$(grep -c 'drive 2\|scrub' "$DIR/daemon.log")
[ "$lines" -lt 30 ] && ok "in a few lines" || not_ok "in a few lines" "$lines"

# ---- and answers again ----

put_back "$DIR/copy" "$DIR/d2"
check "it comes back by itself" until_is good drives 2 health
check "which is said" said "drive 2 (.*): answers again"
rm -rf "$DIR/out"
check "export" ctl -q export /tree "$DIR/out"
check "what came out is what went in" same_trees "$DIR/src" "$DIR/out"
ctl status | head -1 | grep -q degraded && not_ok "the headline is as before" || ok "the headline is as before"
check "a clean stop" stop
finish

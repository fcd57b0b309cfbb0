#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# wekactl du: of a tree that was imported what find(1) adds up, also when the appliance was killed
# before the totals had settled.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

D0=file:$DIR/d0?size=128M
write_conf "$D0"
check "format" "$BIN/wekactl" format "$D0"
check "start" start

for d in 0 1 2 3 4 5 6 7 8 9; do
	mkdir -p "$DIR/tree/$d/a/b/c"
	for i in $(seq 30); do head -c $((i * 997)) /dev/zero >"$DIR/tree/$d/a/b/c/f$i"; done
	ln "$DIR/tree/$d/a/b/c/f1" "$DIR/tree/$d/twice" && ln -s twice "$DIR/tree/$d/loose"
done
entries=$(find "$DIR/tree" -mindepth 1 | wc -l)
dirs=$(find "$DIR/tree" -mindepth 1 -type d | wc -l)
bytes=$(find "$DIR/tree" -mindepth 1 ! -type d -printf '%i %s\n' | sort -u | awk '{ n += $2 } END { print n }')

# settled PATH: its totals, when they say that they are exact.
settled() {
	for _ in $(seq 1200); do
		line=$(ctl --json du "$1")
		case "$line" in *'"settled":true'*) break ;; esac
		sleep 0.1
	done
	echo "$line" | sed 's/.*"entries":\([0-9]*\),"dirs":\([0-9]*\),"bytes":\([0-9]*\).*"settled":true.*/\1 \2 \3/'
}
check "import" ctl -q import "$DIR/tree" /tree
crash
check "start again, after SIGKILL" start
is "of the tree: what find says" "$entries $dirs $bytes" "$(settled /tree)"
is "of the root: one directory more" "$((entries + 1)) $((dirs + 1)) $bytes" "$(settled /)"
check "a tenth of it goes" ctl rm -r /tree/3
is "and is not counted any more" "$((entries * 9 / 10)) $((dirs * 9 / 10)) $((bytes * 9 / 10))" "$(settled /tree)"
is "for people; of a symlink it is what that leads to" "/tree/4/loose: 997 bytes, 4096 on drives, in 0 names, 0 of them directories" "$(ctl du /tree/4/loose)"
refuses "what is not there is named" "/none: " "$BIN/wekactl" --connect "$TCP" --key "$DIR/key" du /none
check "a clean stop" stop
check "all that is counted is so" "$BIN/wekactl" check "$D0"
finish

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# rm -r with a key that has a user: as rm(1) does it, what the user may remove and nothing else.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

D0=file:$DIR/d0?size=128M
write_conf "$D0"
echo "key_dir = $DIR/keys" >>"$CONF"
check "a user's key" "$BIN/wekactl" --config "$CONF" keys add --write --uid 1000 --gids 100 ann "$DIR/ann"
ann() { "$BIN/wekactl" --connect "$TCP" --key "$DIR/ann" "$@"; }
check "format" "$BIN/wekactl" format "$D0"
check "start" start

mkdir -p "$DIR/open" "$DIR/tree/sub/deep/er" "$DIR/tree/empty" "$DIR/kept" && chmod 777 "$DIR/open"
for i in $(seq 600); do echo "$i" >"$DIR/tree/sub/f$i"; done
echo text >"$DIR/tree/sub/deep/er/file" && echo kept >"$DIR/kept/file"
ln -s /kept "$DIR/tree/sub/away" && ln -s nowhere "$DIR/tree/loose"
check "a directory that all may write to" ctl import "$DIR/open" /open
check "another's" ctl import "$DIR/kept" /kept
check "a user's tree" ann -q import "$DIR/tree" /open/tree
check "in it something that is not the user's" ctl -q import "$DIR/kept" /open/tree/sub/theirs

refuses "one that may not be removed is named" "/open/tree/sub/theirs/file: permission denied" \
	"$BIN/wekactl" --connect "$TCP" --key "$DIR/ann" rm -r /open/tree
is "all else is gone, and what leads there is not" "/open/tree/sub
/open/tree/sub/theirs
/open/tree/sub/theirs/file" "$(ctl ls -r /open/tree)"
check "rm -r, by who may" ctl rm -r /open/tree/sub/theirs
check "the user's again" ann -q import "$DIR/tree" /open/tree
check "rm -r, by the user" ann rm -r /open/tree
is "nothing is left" "" "$(ctl ls /open)"
is "a symlink was not followed" kept "$(ctl cat /kept/file)"
refuses "another's directory stays" "/kept: permission denied" \
	"$BIN/wekactl" --connect "$TCP" --key "$DIR/ann" rm -r /kept
refuses "so does the root" "/: " "$BIN/wekactl" --connect "$TCP" --key "$DIR/ann" rm -r /
is "with all in it" kept "$(ctl cat /kept/file)"
check "a clean stop" stop
finish

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# tls = required: a tree goes in and out through it, the shipped daemon's threads sealed; who speaks
# plainly, or holds another key, is refused with one line on each side; kill -9 in the middle of an
# import is what it is without TLS.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=2}"

D0=file:$DIR/d0?size=256M
CACHE=16M
TLS=tls://127.0.0.1:$PORT
write_conf "$D0"
echo "tls = required" >>"$CONF"
make_tree "$DIR/src" 300
check "format" "$BIN/wekactl" format "$D0"
check "start" start

ADDRESS=$TLS
check "import through TLS" ctl -q import "$DIR/src" /tree
check "export through TLS" ctl -q export /tree "$DIR/back"
check "what came back is what went in" same_trees "$DIR/src" "$DIR/back"

(umask 077; echo "$(od -An -tx1 -N32 /dev/urandom | tr -d ' \n')" >"$DIR/other")
refuses "who speaks plainly" "speaks TLS only: use tls://" "$BIN/wekactl" -c "$TCP" -k "$DIR/key" ls /
refuses "another secret" "TLS: the key is unknown there" "$BIN/wekactl" -c "$TLS" -k "$DIR/other" ls /
check "the first is in the log" said 'refused: tcp 127.0.0.1:.*this address speaks TLS only'
check "the second too" said 'refused: tcp 127.0.0.1:.*key "weka": TLS: its key is unknown here'

again() {
	ctl -q import "$DIR/src" "/again-$1" && ctl -q export "/again-$1" "$DIR/b$1" && same_trees "$DIR/src" "$DIR/b$1"
}
bad=
for round in 1 2 3 4 5; do
	"$BIN/wekactl" --connect "$TLS" --key "$DIR/key" -q import "$DIR/src" "/again-$round" >/dev/null 2>&1 &
	importer=$! # the program itself: a shell around it would leave it running beside the next one
	sleep "0.$round"
	crash
	kill $importer 2>/dev/null
	wait $importer 2>/dev/null
	{ start && again $round; } >"$DIR/step" 2>&1 || bad="kill $round: $(tail -3 "$DIR/step")"
done
[ -z "$bad" ] && ok "five kills in an import" || not_ok "five kills in an import" "$bad
$(tail -3 "$DIR/daemon.log")"
check "a clean stop" stop
finish

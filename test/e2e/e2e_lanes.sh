#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Two links to one appliance, one of which is cut and mended, again and again, while epochs are read
# with every byte compared.  The second link is a relay (test/peer/link.py): to kill it is to cut it.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=2}"

cuts=4
[ "${TEST_LENGTH:-short}" = short ] || cuts=40
D0=file:$DIR/d0?size=256M
LINK=$((PORT + 1))
BOTH=$TCP,tcp://127.0.0.2:$LINK
write_conf "$D0"
"$BIN/wekactl" format "$D0" >/dev/null || exit 1
check "the appliance starts" start
mkdir "$DIR/src"
i=0
while [ $i -lt 1200 ]; do
	head -c $((1 + i * 7919 % 40000)) /dev/urandom >"$DIR/src/$i"
	i=$((i + 1))
done
check "import" ctl -q import "$DIR/src" /

mend() { # returns when it listens
	rm -f "$DIR/carried"
	python3 test/peer/link.py 127.0.0.2 "$LINK" "$PORT" "$DIR/carried" &
	RELAY=$!
	until [ -s "$DIR/carried" ]; do sleep 0.02; done
}
cut() { kill -9 $RELAY; wait $RELAY 2>/dev/null; }
carried() { text=$(cat "$DIR/carried" 2>/dev/null) && echo "${text:-0}" || echo 0; }
epochs() { "$BIN/weka-bench" epoch --verify --connect "$BOTH" --key "$DIR/key" --tree "$DIR/src" --epochs "$1"; }
# Bytes have come over the second link since it was mended.
until_used() {
	tries=0
	until [ "$(carried)" -gt 300000 ]; do
		tries=$((tries + 1))
		[ $tries -le 200 ] || { echo "only $(carried) bytes over the second link"; return 1; }
		sleep 0.1
	done
}

check "an epoch with one link dead from the beginning" epochs 1
mend
check "epochs over both" epochs 5
check "both were used" until_used

read_on() {
	until [ -e "$DIR/enough" ]; do epochs 5 || return 1; done
}
read_on >"$DIR/epochs.out" 2>&1 &
READER=$!
bad=
for n in $(seq $cuts); do
	cut
	mend
	until_used >"$DIR/used.out" 2>&1 || bad="cut $n: $(cat "$DIR/used.out")"
	kill -0 $READER 2>/dev/null || bad="cut $n: the reader ended: $(tail -2 "$DIR/epochs.out")"
	[ -z "$bad" ] || break
done
[ -z "$bad" ] && ok "$cuts times cut and mended: the link is used again each time" || not_ok "links" "$bad"
: >"$DIR/enough"
check "every epoch was whole, and every byte as it was put" wait $READER
check "an export while the link is cut" sh -c "
	(sleep 0.3; kill -9 $RELAY) & '$BIN/wekactl' --connect '$BOTH' --key '$DIR/key' -q export / '$DIR/out'"
check "is what was imported" diff -r "$DIR/src" "$DIR/out"
check "stop" stop
check "check finds nothing wrong" "$BIN/wekactl" check "$D0"
finish

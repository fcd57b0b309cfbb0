#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# weka-mount is killed, and the appliance too, while programs change files (mount_kills.py): what
# returned is there, what was cut off was made or was not, and nothing is left in the appliance.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh && . test/e2e/mount_lib.sh
: "${APP_CORES:=2}"
need_fuse
case ${TEST_LENGTH:-short} in
short) : "${MOUNT_KILLS:=30}" "${SEED:=1}" ;;
long) : "${MOUNT_KILLS:=1500}" "${SEED:=$$}" ;;
*) : "${MOUNT_KILLS:=100000}" "${SEED:=$$}" ;;
esac

D0=file:$DIR/d0?size=1G
write_conf "$D0"
"$BIN/wekactl" format "$D0" >/dev/null || exit 1
check "the appliance starts" start
of_store() { ctl --json status | python3 -c "import json, sys; s = json.load(sys.stdin); print(*(s[a][b] for a, b in (
	('fabric', 'sessions_open'), ('store', 'opens'), ('store', 'orphans'), ('store', 'files'), ('store', 'dirs'),
	('store', 'live_file_bytes'))))"; }
before=$(of_store)

kills() { # NAME NUMBER ADDRESS: in the background; its process in $KILLS
	python3 test/e2e/mount_kills.py "$MNT-$1-" $((MOUNT_KILLS / 2)) 2 $((SEED * 100 + $2)) \
		"$BIN/wekactl --connect $SHM --key $DIR/key --json status" "$BIN/weka-mount" -f \
		-o "key=$DIR/key,timeout=300,threads=2" "$3" >"$DIR/kills.$1" 2>&1 &
	KILLS=$!
}
kills shm 0 "$SHM" && P1=$KILLS
kills tcp 50 "$TCP" && P2=$KILLS
killed=0
while kill -0 $P1 2>/dev/null || kill -0 $P2 2>/dev/null; do
	sleep 2
	crash
	start || not_ok "it starts again"
	killed=$((killed + 1))
done
for p in "$P1 shm" "$P2 tcp"; do
	wait "${p% *}"
	is "${p#* }: what was acknowledged is there after each kill" "0 seed" "$? $(grep -v '^program [0-9]*: ' "$DIR/kills.${p#* }" | cut -c1-4)"
	sed 's/^/  /' "$DIR/kills.${p#* }"
done
ok "the appliance was killed $killed times meanwhile"
nothing_left() {
	i=0
	until [ "$(of_store)" = "$before" ]; do
		i=$((i + 1))
		[ $i -lt 200 ] || { echo "sessions, opens, orphans, files, directories, bytes: $(of_store), not $before"; return 1; }
		sleep 0.1
	done
}
check "no session, open file, orphan, name or byte is left" nothing_left
check "the appliance stops" stop
check "and the store is whole" "$BIN/wekactl" --config "$CONF" check
finish

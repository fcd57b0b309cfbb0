#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Random operations on files of a mount beside a model (test/tools/mount_fsx.c), through two mounts
# that must see the same, while the appliance is killed and started again every two seconds.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh && . test/e2e/mount_lib.sh
: "${APP_CORES:=2}"
need_fuse
FSX=$(realpath "$BUILD/release/test/tools/mount_fsx")
case ${TEST_LENGTH:-short} in
short) : "${OPERATIONS:=700}" "${KILLS_MAX:=1}" "${SEED:=1}" ;;
long) : "${OPERATIONS:=20000}" "${KILLS_MAX:=1000}" "${SEED:=$$}" ;;
*) : "${OPERATIONS:=3400000}" "${KILLS_MAX:=1000000}" "${SEED:=$$}" ;;
esac

D0=file:$DIR/d0?size=1G
write_conf "$D0"
"$BIN/wekactl" format "$D0" >/dev/null || exit 1
check "the appliance starts" start
check "mounted over shared memory" mount_at "$MNT" timeout=300
MOUNT_ADDRESS=$TCP
check "and over tcp" mount_at "$MNT-tcp" timeout=300
check "through the page cache" mount_at "$MNT-buffered" timeout=300,buffered
check "with a cache" mount_at "$MNT-cache" timeout=300,cache=30

fsx() { "$FSX" "$DIR/$2" "$DIR/$3" "$OPERATIONS" "$SEED" >"$DIR/fsx.$1" 2>&1; }
fsx direct mnt/a mnt-tcp/a & P1=$!
fsx buffered mnt-buffered/b mnt-tcp/b & P2=$!
fsx cache mnt-cache/c mnt-cache/c & P3=$!
killed=0
while [ $killed -lt "$KILLS_MAX" ] && { kill -0 $P1 || kill -0 $P2 || kill -0 $P3; } 2>/dev/null; do
	killed=$((killed + 1))
	sleep 2
	crash
	start || not_ok "it starts again"
done
for p in "$P1 direct" "$P2 buffered" "$P3 cache"; do
	wait "${p% *}"
	is "${p#* }: each result is the model's" "seed $SEED: $OPERATIONS operations" "$(cat "$DIR/fsx.${p#* }")"
done
ok "the appliance was killed $killed times meanwhile"

# ---- close to open, with a cache ----
for i in 1 2 3 4 5; do
	head -c $((i * 5000)) /dev/urandom >"$MNT/cached"
	sum=$(sha256sum <"$MNT/cached")
	[ "$(sha256sum <"$MNT-buffered/cached")" = "$sum" ] || not_ok "change $i is seen at the next open"
done
ok "a file is opened as it was closed, five times"
check "they are unmounted" umount "$MNT" "$MNT-tcp" "$MNT-buffered" "$MNT-cache"
check "and their programs end" gone
check "the appliance stops" stop
check "and the store is whole" "$BIN/wekactl" --config "$CONF" check
finish

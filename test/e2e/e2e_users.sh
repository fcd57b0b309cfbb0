#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Clients of other users over shared memory: shm_mode, shm_group and shm_users.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=1}"
if [ "$(id -u)" != 0 ] || ! command -v setpriv >/dev/null; then
	ok "skipped: only root becomes other users"
	finish
fi

write_conf mem:256M
chmod 755 "$DIR"
AS=$DIR/as
cat >"$AS" <<END
#!/bin/sh
# UID GID COMMAND...: wekactl as another user, with a key file of its own
uid=\$1 gid=\$2
shift 2
cp "$DIR/key" "$DIR/key.\$uid" && chown "\$uid" "$DIR/key.\$uid" && chmod 600 "$DIR/key.\$uid"
exec setpriv --reuid "\$uid" --regid "\$gid" --clear-groups \\
	"$BIN/wekactl" --connect "$SHM" --key "$DIR/key.\$uid" "\$@"
END
chmod +x "$AS"

check "the appliance starts" start
is "the socket is its user's alone" 600 "$(stat -c %a "$DIR/weka.sock")"
refuses "another user does not get in" "permission denied" "$AS" 65534 65534 ls /
stop

printf 'shm_mode = 0660\nshm_group = 65533\n' >>"$CONF"
check "with a group it starts" start
is "the socket is the group's, too" "660 65533" "$(stat -c '%a %g' "$DIR/weka.sock")"
check "a user of the group gets in" "$AS" 65534 65533 mkdir /of-nobody
refuses "one of another group does not" "permission denied" "$AS" 65534 65534 ls /
head -c 5000000 /dev/urandom >"$DIR/bytes" && chmod 644 "$DIR/bytes"
check "it writes" "$AS" 65534 65533 put "$DIR/bytes" /of-nobody/bytes
is "and what it wrote is there" "$(sha256sum <"$DIR/bytes")" "$(ctl cat /of-nobody/bytes | sha256sum)"
stop

echo 'shm_users = 65532,daemon' >>"$CONF"
check "with users it starts" start
refuses "a user that is not named does not get in" "may not connect" "$AS" 65534 65533 ls /
check "one that is named does" "$AS" 65532 65533 ls /
check "the appliance's own too" ctl ls /
stop

sed -i 's/^shm_users.*/shm_users = nobody-of-that-name/' "$CONF"
refuses "a user that there is not is named" "no such user" "$BIN/weka-appliance" --check-config --config "$CONF"
finish

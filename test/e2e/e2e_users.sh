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

# ---- setuid and setgid: for the owner and the group that a file had, and nobody else ----
mkdir "$DIR/s" "$DIR/out" && chmod 755 "$DIR/s" && chmod 777 "$DIR/out"
for f in root theirs group; do echo "$f" >"$DIR/s/$f"; done
chown 65534:65533 "$DIR/s/theirs" && chown 0:65533 "$DIR/s/group" && chmod 6755 "$DIR"/s/*
check "setuid files go in" ctl import "$DIR/s" /s
check "another user exports them" "$AS" 65534 65533 export /s "$DIR/out/nobody"
modes() { (cd "$DIR/out/$1" && stat -c '%n %a' group root theirs | xargs); }
is "none is set for an owner or a group that it was not set for" "group 2755 root 755 theirs 6755" "$(modes nobody)"
"$AS" 65534 65533 export /s "$DIR/out/nobody" >"$DIR/again" 2>&1
check "and once more: nothing is to do" grep -q "3 were there already" "$DIR/again"
chmod 4755 "$DIR/out/nobody/root"
check "one that was set before" "$AS" 65534 65533 export /s "$DIR/out/nobody"
is "is set no more" "group 2755 root 755 theirs 6755" "$(modes nobody)"
check "root exports them" ctl export /s "$DIR/out/nobody"
is "with all they had" "group 6755 root 6755 theirs 6755" "$(modes nobody)"

# ---- a file that cannot be read replaces nothing ----
mkdir -p "$DIR/r/f" && echo precious >"$DIR/r/f/precious" && chmod 755 "$DIR/r"
check "a directory" ctl import "$DIR/r" /r
rm -r "$DIR/r/f" && echo secret >"$DIR/r/f" && chmod 600 "$DIR/r/f"
refuses_line() { "$AS" 65534 65533 --quiet --force import "$DIR/r" /r 2>&1 | grep '^wekactl:'; }
is "a file in its place that cannot be read is named" "wekactl: $DIR/r/f: Permission denied" "$(refuses_line)"
is "and the directory stays, even with --force" precious "$(ctl cat /r/f/precious)"
chmod 644 "$DIR/r/f"
check "when it can be read" "$AS" 65534 65533 --force import "$DIR/r" /r
is "it takes the place" secret "$(ctl cat /r/f)"
stop

# ---- root needs no key; nobody else comes in that way ----
sed -i 's/^shm_mode.*/shm_mode = 0666/' "$CONF"
check "open to all it starts" start
bare() { env -u WEKA_KEY_FILE "$BIN/wekactl" --connect "$SHM" "$@"; }
check "root writes without a key" bare put "$DIR/r/f" /f
is "and reads" secret "$(bare cat /f)"
is "as a client of that name" "@root" "$(bare --json clients | grep -o '"key": *"@root"' | tail -n 1 | cut -d'"' -f4)"
(umask 077 && printf '@root:%064d\n' 0 >"$DIR/root.key")
check "with that name as its key it is the same" "$BIN/wekactl" -c "$SHM" -k "$DIR/root.key" cat /f
refuses "but not over tcp" "does not hold our key" "$BIN/wekactl" -c "$TCP" -k "$DIR/root.key" ls /
cat >"$AS.bare" <<END
#!/bin/sh
cp "$DIR/root.key" "$DIR/theirs.key" && chown 65534 "$DIR/theirs.key"
exec setpriv --reuid 65534 --regid 65533 --clear-groups "$BIN/wekactl" --connect "$SHM" "\$@"
END
chmod +x "$AS.bare"
refuses "another user does not read without a key" "say --connect ADDRESS --key FILE" "$AS.bare" cat /f
refuses "nor with root's name" "does not hold our key" "$AS.bare" --key "$DIR/theirs.key" cat /f
refuses "nor as one without a key" "does not hold our key" "$AS.bare" --anonymous cat /f
stop
sed -i 's/^shm_mode.*/shm_mode = 0660/' "$CONF"

echo 'shm_users = 65532,daemon' >>"$CONF"
check "with users it starts" start
refuses "a user that is not named does not get in" "may not connect" "$AS" 65534 65533 ls /
check "one that is named does" "$AS" 65532 65533 ls /
check "the appliance's own too" ctl ls /
stop

sed -i 's/^shm_users.*/shm_users = nobody-of-that-name/' "$CONF"
refuses "a user that there is not is named" "no such user" "$BIN/weka-appliance" --check-config --config "$CONF"
finish

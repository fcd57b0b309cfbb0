#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Calls on files of a mount, errno by errno, as root and as another user, beside a local file system:
# mount_cases.py.  Short runs take every twelfth of the 6,290 cases.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh && . test/e2e/mount_lib.sh
: "${APP_CORES:=1}"
need_fuse
case ${TEST_LENGTH:-short} in
short) EVERY=12 LEAST=500 ;;
*) EVERY=1 LEAST=6290 ;;
esac

write_conf mem:512M
check "the appliance starts" start
chmod 755 "$DIR"
check "it is mounted" mount_at "$MNT" allow_other
mkdir "$MNT/cases" "$DIR/local"
check "cases have the errors of the list" python3 test/e2e/mount_cases.py "$MNT/cases" "$DIR/local" \
	test/e2e/mount_cases.list $EVERY 4
count=$(sed -n 's/ cases, .*//p' "$DIR/check.out")
check "they were ${count:-0}" [ "${count:-0}" -ge $LEAST ]

# ---- nobody gains by the mount ----
AS="setpriv --reuid 65534 --regid 65534 --clear-groups"
echo secret >"$MNT/secret" && chmod 600 "$MNT/secret"
cp "$(command -v id)" "$MNT/suid" && chmod 4755 "$MNT/suid"
mkdir -m 700 "$MNT/closed" && echo inside >"$MNT/closed/file" && chmod 644 "$MNT/closed/file"
refuses "a file of root's is closed to others" "ermission denied" $AS cat "$MNT/secret"
is "a set-user-ID program runs as its caller" 65534 "$($AS "$MNT/suid" -u)"
exec 8<"$MNT/closed/file"
refuses "a way through /proc is closed, too" "ermission denied" $AS cat "/proc/$$/fd/8"
exec 8<&-
mkdir -m 1777 "$MNT/tmp"
refuses "a hard link is not made" "not permitted" $AS ln "$MNT/secret" "$MNT/tmp/hard"
$AS ln -s "$MNT/closed/file" "$MNT/tmp/link"
refuses "nor does a symlink" "ermission denied" $AS cat "$MNT/tmp/link"
refuses "another's file in a sticky directory stays" "not permitted" sh -c "touch '$MNT/tmp/mine'; $AS rm -f '$MNT/tmp/mine'"
check "a mount for root alone" mount_at "$MNT-2"
refuses "shows others nothing" "ermission denied" $AS ls "$MNT-2"

# ---- names that appear and vanish while others look ----
race() { # opens by name, against a file that is closed to the user: never with success
	python3 - "$MNT/tmp" <<'EOF'
import errno, mmap, os, sys, time
os.chdir(sys.argv[1])
begun, enough, parent = time.monotonic(), mmap.mmap(-1, 1), os.getpid()
child = os.fork()
if child == 0: # root: a file that is closed to others comes and goes
    while not enough[0] and os.getppid() == parent:
        try:
            fd = os.open("race", os.O_CREAT | os.O_RDWR, 0o600)
            os.write(fd, b"secret")
            os.close(fd)
            os.unlink("race")
        except OSError as e: # it was the other's, who has removed it
            assert e.errno in (errno.EACCES, errno.ENOENT, errno.ESTALE), e
    os._exit(0)
os.setgroups([])
os.setegid(65534)
os.seteuid(65534)
seen, made = 0, 0
while time.monotonic() < begun + (3 if made else 60): # three seconds, and more on a busy machine
    try:
        fd = os.open("race", os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as e:
        assert e.errno in (errno.EACCES, errno.ESTALE, errno.EPERM), e
        continue
    made += 1
    seen += os.fstat(fd).st_uid != 65534
    os.close(fd)
    try:
        os.unlink("race")
    except OSError:
        pass
enough[0] = 1
broke = os.waitpid(child, 0)[1]
print(made, "made,", seen, "of root's opened")
sys.exit(seen > 0 or made == 0 or broke != 0)
EOF
}
check "O_CREAT never opens what the mode forbids" race
check "they are unmounted" umount "$MNT" "$MNT-2"
check "and their programs end" gone
check "the appliance stops" stop
finish

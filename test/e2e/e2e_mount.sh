#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# weka-mount: a tree read and written through the mount, compared byte for byte with the same tree
# read and written by wekactl; two mounts that see each other's changes; options; the end.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh && . test/e2e/mount_lib.sh
: "${APP_CORES:=2}"
need_fuse

write_conf mem:1G
check "the appliance starts" start
make_tree "$DIR/tree" 150

# ---- read ----
check "a tree goes in" ctl import "$DIR/tree" /tree
check "it is mounted" mount_at "$MNT" ro
is "as a file system of its own type" fuse.weka "$(awk -v m="$MNT" '$2 == m { print $3 }' /proc/mounts)"
check "every byte, name, mode and time is there" same_trees "$DIR/tree" "$MNT/tree"
listed() { # again and again, whole
	n=0
	while [ $n -lt 50 ]; do
		n=$((n + 1))
		ls -A "$MNT/tree/sub" >"$DIR/listed" && [ "$(wc -l <"$DIR/listed")" = "$(ls -A "$DIR/tree/sub" | wc -l)" ] || return 1
	done
}
check "each name is listed once" listed
refuses "a write to it" "read-only" touch "$MNT/new"
is "its size is the appliance's" 4096 "$(stat -fc %S "$MNT")"
check "it is unmounted" umount "$MNT"
check "and its program ends" gone

# ---- written ----
MOUNT_ADDRESS=$TCP
check "it is mounted for writing, over tcp" mount_at "$MNT"
check "cp -a writes a tree" cp -a "$DIR/tree" "$MNT/copy"
check "which the mount shows" same_trees "$DIR/tree" "$MNT/copy"
check "wekactl exports it" ctl export /copy "$DIR/exported"
check "the same" same_trees "$DIR/tree" "$DIR/exported"

# ---- one operation each ----
cd "$MNT" || exit 1
python3 - >"$DIR/python.out" 2>&1 <<'EOF' || { cat "$DIR/python.out"; not_ok "operations by Python"; }
import ctypes, errno, fcntl, mmap, os, stat

def fails(number, call, *args, **more):
    try:
        call(*args, **more)
    except OSError as e:
        assert e.errno == number, (call, args, e)
    else:
        raise AssertionError((call, args, "succeeded"))

def ok(text):
    print("ok", text)

# Appends of two descriptors do not overwrite each other.
a, b = (os.open("append", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o640) for _ in range(2))
for i in range(50):
    os.write(a, b"a%03d\n" % i)
    os.write(b, b"b%03d\n" % i)
lines = open("append").read().split()
assert sorted(lines) == sorted(["a%03d" % i for i in range(50)] + ["b%03d" % i for i in range(50)])
assert stat.S_IMODE(os.stat("append").st_mode) == 0o640
os.close(a), os.close(b)
ok("appends")

# Truncated, extended, punched.
with open("holes", "wb+") as f:
    f.write(os.urandom(1 << 20))
    f.flush()
    os.ftruncate(f.fileno(), 3 << 20)
    assert os.fstat(f.fileno()).st_size == 3 << 20
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.fallocate(f.fileno(), 3, ctypes.c_long(65536), ctypes.c_long(65536)) == 0
    assert os.pread(f.fileno(), 65536, 65536) == bytes(65536)
    assert os.lseek(f.fileno(), 0, os.SEEK_HOLE) == 65536
    assert os.lseek(f.fileno(), 65536, os.SEEK_DATA) == 131072
    assert os.lseek(f.fileno(), 131072, os.SEEK_HOLE) == 1 << 20
    fails(errno.ENXIO, os.lseek, f.fileno(), 2 << 20, os.SEEK_DATA)
    assert libc.fallocate(f.fileno(), 0, ctypes.c_long(0), ctypes.c_long(8 << 20)) == -1
    assert ctypes.get_errno() == errno.EOPNOTSUPP
    os.ftruncate(f.fileno(), 100)
assert os.path.getsize("holes") == 100
ok("sizes and holes")

# Mapped, shared and private.
with open("mapped", "wb+") as f:
    f.write(b"x" * 10000)
    f.flush()
    with mmap.mmap(f.fileno(), 0) as m:
        m[5000:5005] = b"hello"
        m.flush()
    assert os.pread(f.fileno(), 7, 4999) == b"xhellox"
    with mmap.mmap(f.fileno(), 0, flags=mmap.MAP_PRIVATE) as m:
        assert m[5000:5005] == b"hello"
        m[0:1] = b"y"
    assert os.pread(f.fileno(), 1, 0) == b"x"
ok("mapped files")

# A file without a name lives until it is closed.
fd = os.open("unnamed", os.O_CREAT | os.O_RDWR)
os.write(fd, b"still here")
os.unlink("unnamed")
assert os.pread(fd, 100, 0) == b"still here" and os.fstat(fd).st_nlink == 0
os.pwrite(fd, b"STILL", 0)
assert os.pread(fd, 100, 0) == b"STILL here"
os.close(fd)
assert not os.path.exists("unnamed")
ok("an open file without a name")

# Links and renames.
AT, NOREPLACE, EXCHANGE, WHITEOUT = -100, 1, 2, 4
os.symlink("mapped", "sym")
os.link("mapped", "mapped2")
assert os.stat("mapped").st_ino == os.stat("mapped2").st_ino and os.stat("mapped").st_nlink == 2
os.link("sym", "sym2", follow_symlinks=False)
assert os.readlink("sym2") == "mapped"
with open("mapped") as f:
    libc.linkat(AT, b"/proc/self/fd/%d" % f.fileno(), AT, b"by-descriptor", 0x400)
assert os.stat("mapped").st_nlink == 3
fails(errno.EPERM, os.link, "copy", "dir-link")
fails(errno.EEXIST, os.link, "mapped", "mapped2")
with open("gone", "w") as f:
    os.unlink("gone")
    assert libc.linkat(AT, b"/proc/self/fd/%d" % f.fileno(), AT, b"back", 0x400) == -1
    assert ctypes.get_errno() == errno.ENOENT
assert os.readlink("sym") == "mapped" and open("sym", "rb").read(1) == b"x"
os.rename("mapped2", "mapped3")
rename2 = lambda x, y, how: libc.renameat2(AT, x, AT, y, how) and ctypes.get_errno()
assert rename2(b"mapped3", b"holes", NOREPLACE) == errno.EEXIST
size, other = os.path.getsize("mapped3"), os.path.getsize("holes")
assert rename2(b"mapped3", b"holes", EXCHANGE) == 0
assert (os.path.getsize("mapped3"), os.path.getsize("holes")) == (other, size)
assert rename2(b"mapped3", b"x", WHITEOUT) == errno.EINVAL
os.mkdir("d")
fails(errno.ENOTEMPTY, os.rmdir, "copy")
fails(errno.EEXIST, os.mkdir, "d")
fails(errno.EISDIR, os.unlink, "d")
fails(errno.ENOTDIR, os.rmdir, "sym")
os.rename("d", "e")
os.rmdir("e")
fails(errno.EPERM, os.mkfifo, "pipe")
ok("names")

# Attributes.
os.setxattr("mapped", "user.one", b"1" * 1000)
os.setxattr("mapped", "user.two", b"")
assert sorted(os.listxattr("mapped")) == ["user.one", "user.two"]
assert os.getxattr("mapped", "user.one") == b"1" * 1000 and os.getxattr("mapped", "user.two") == b""
fails(errno.EEXIST, os.setxattr, "mapped", "user.one", b"", os.XATTR_CREATE)
fails(errno.ENODATA, os.setxattr, "mapped", "user.three", b"", os.XATTR_REPLACE)
os.removexattr("mapped", "user.one")
fails(errno.ENODATA, os.getxattr, "mapped", "user.one")
fails(errno.EOPNOTSUPP, os.setxattr, "mapped", "trusted.x", b"")
os.setxattr("mapped", "user.big", b"b" * 65536)
assert os.getxattr("mapped", "user.big") == b"b" * 65536
os.utime("mapped", ns=(1234567890123456789, 987654321987654321))
st = os.stat("mapped")
assert (st.st_atime_ns, st.st_mtime_ns) == (1234567890123456789, 987654321987654321)
os.chmod("mapped", 0o4751)
os.chown("mapped", 12, 34)
st = os.stat("mapped")
assert (st.st_uid, st.st_gid, st.st_mode) == (12, 34, stat.S_IFREG | 0o751), oct(st.st_mode)
ok("attributes")

# Locks, and a temporary file without a name.
f, g = open("append"), open("append")
fcntl.flock(f, fcntl.LOCK_EX)
fails(errno.EAGAIN, fcntl.flock, g, fcntl.LOCK_EX | fcntl.LOCK_NB)
fcntl.flock(f, fcntl.LOCK_UN)
fcntl.flock(g, fcntl.LOCK_EX | fcntl.LOCK_NB)
fails(errno.EOPNOTSUPP, os.open, ".", os.O_TMPFILE | os.O_RDWR)
ok("locks")

# Seeking in a large directory, and names that go away while it is read.
os.mkdir("many")
for i in range(1000):
    os.close(os.open("many/f%d" % i, os.O_CREAT | os.O_WRONLY))
assert sorted(os.listdir("many")) == sorted("f%d" % i for i in range(1000))
with os.scandir("many") as names:
    for name in names:
        os.unlink(name.path)
assert os.listdir("many") == []
os.rmdir("many")
ok("a directory that is emptied while it is read")
EOF
cd - >/dev/null || exit 1
grep '^ok ' "$DIR/python.out"

# ---- two mounts ----
MOUNT_ADDRESS=$SHM
check "a second mount, over shared memory" mount_at "$MNT-2"
seen() { # what one mount does, the other sees at once
	for i in 1 2 3 4 5 6 7 8 9 10; do
		echo "$i" >"$MNT/shared" && [ "$(cat "$MNT-2/shared")" = "$i" ] || return 1
		rm "$MNT-2/shared" && [ ! -e "$MNT/shared" ] || return 1
		mkdir "$MNT/dir.$i" && [ -d "$MNT-2/dir.$i" ] && rmdir "$MNT-2/dir.$i" || return 1
	done
}
check "it sees each change at once, and is seen" seen
exec 8<"$MNT-2/append"
rm "$MNT/append"
is "a file open in one and removed in the other is still there" 100 "$(wc -l <&8)"
exec 8<&-
exec 9>>"$MNT/growing"
echo one >&9 && is "bytes written through an open file are read" one "$(cat "$MNT-2/growing")"
echo two >&9 && is "each time" "one two" "$(xargs <"$MNT-2/growing")"
exec 9>&-
check "a mount with a cache" mount_at "$MNT-3" cache=60
check "shows the tree, too" same_trees "$DIR/tree" "$MNT-3/copy"
check "also a second time" same_trees "$DIR/tree" "$MNT-3/copy"
check "it is unmounted" umount "$MNT-3"

# ---- small files come with their lookup ----
mkdir "$MNT/small"
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do head -c $((i * 700)) /dev/urandom >"$MNT/small/$i"; done
(cd "$MNT/small" && sha256sum ./*) >"$DIR/sums"
requests() { ctl --json status | python3 -c "import json, sys; print(json.load(sys.stdin)['requests']['$1'])"; }
check "a mount with a cache" mount_at "$MNT-3" cache=60
before=$(requests read)
check "reads small files" sh -c "cd '$MNT-3/small' && sha256sum -c --quiet '$DIR/sums'"
is "without a request to read" "$before" "$(requests read)"
check "it is unmounted" umount "$MNT-3"
# Bytes that were read with a lookup, and changed since through the same mount.
check "a mount with a cache" mount_at "$MNT-3" cache=60
own_changes() {
	python3 - "$MNT/small" "$MNT-3/small" <<'EOF2'
import ctypes, os, sys
to, by = sys.argv[1:]
libc = ctypes.CDLL(None)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
changes = {
    "write": lambda fd, path: os.pwrite(fd, b"x" * 100, 10),
    "truncate": lambda fd, path: os.truncate(path, 2),
    "truncate up": lambda fd, path: os.ftruncate(fd, 9000),
    "punch": lambda fd, path: libc.fallocate(fd, 3, 0, 2),
    "open with O_TRUNC": lambda fd, path: os.close(os.open(path, os.O_WRONLY | os.O_TRUNC)),
}
bad = 0
for number, (what, change) in enumerate(changes.items()):
    for early in (False, True): # opened before the change, or only looked up
        path = f"{by}/own-{number}-{early}"
        with open(f"{to}/own-{number}-{early}", "wb") as f:
            f.write(b"abc")
        fd = os.open(path, os.O_RDONLY) if early else os.stat(path) and -1
        writer = os.open(path, os.O_RDWR)
        change(writer, path)
        os.close(writer)
        with open(f"{to}/own-{number}-{early}", "rb") as f:
            wanted = f.read()
        fd = fd if early else os.open(path, os.O_RDONLY)
        got = os.pread(fd, 10000, 0)
        os.close(fd)
        if got != wanted:
            print(f"{what}, {'open' if early else 'looked up'}: {len(got)} bytes {got[:9]}, not {len(wanted)} {wanted[:9]}")
            bad += 1
        os.unlink(path)
sys.exit(bad)
EOF2
}
check "shows its own changes at once" own_changes
check "it is unmounted" umount "$MNT-3"
# Where no small files are opened, their bytes are soon asked for no more.
check "a mount with a cache" mount_at "$MNT-3" cache=60,threads=1
before=$(requests read_batch)
mkdir "$MNT-3/new" "$MNT/large"
(cd "$MNT-3/new" && seq 400 | xargs touch)
asked=$(($(requests read_batch) - before))
check "of 400 new names, bytes are asked for $asked times" [ $asked -le 100 ]
check "it is unmounted" umount "$MNT-3"
check "a mount with a cache" mount_at "$MNT-3" cache=60,threads=1
(cd "$MNT/large" && seq 200 | xargs truncate -s 100000)
before=$(requests read_batch)
(cd "$MNT-3/large" && seq 200 | xargs cat >/dev/null)
asked=$(($(requests read_batch) - before))
check "and of 200 large files $asked times" [ $asked -le 50 ]
rm -r "$MNT/new" "$MNT/large"
check "it is unmounted" umount "$MNT-3"
check "a mount with a short cache" mount_at "$MNT-3" cache=0.05
whole() { # files that are replaced all the time are whole, one or the other
	python3 - "$MNT/small" "$MNT-3/small" <<'EOF'
import errno, mmap, os, random, sys, time
to, by = sys.argv[1:]
begun, enough, parent = time.monotonic(), mmap.mmap(-1, 1), os.getpid()
if os.fork() == 0:
    while not enough[0] and os.getppid() == parent:
        size = random.choice([10, 100, 4096, 9000, 20000])
        with open(to + "/new", "wb") as f:
            f.write(b"%05d" % size + random.choice(b"abc").to_bytes(1, "big") * (size - 5))
        os.rename(to + "/new", to + "/replaced")
    os._exit(0)
count, sizes = 0, set()
# Three seconds, and more on a busy machine.
while time.monotonic() < begun + (3 if count > 10 and len(sizes) > 1 else 60):
    try:
        f = open(by + "/replaced", "rb")
    except FileNotFoundError:
        continue
    except OSError as e:
        if e.errno != errno.ESTALE:
            raise
        continue  # twice between lookup and open: weka-mount(8), replacement races
    with f:
        got = f.read()
    if len(got) != int(got[:5]) or len(set(got[5:])) != 1:
        raise SystemExit(f"{len(got)} bytes: {got[:20]}")
    count += 1
    sizes.add(len(got))
enough[0] = 1
os.wait()
raise SystemExit(0 if count > 10 and len(sizes) > 1 else f"{count} {sizes}")
EOF
}
check "a file that is replaced is seen whole" whole
check "it is unmounted" umount "$MNT-3"

# ---- options, and refusals ----
mkdir "$MNT-4"
refuses "an unknown option" "unknown option: colour" "$BIN/weka-mount" -o colour=red "$SHM" "$MNT-4"
refuses "a directory that there is not" "No such file" "$BIN/weka-mount" -o "key=$DIR/key" "$SHM" "$DIR/none"
refuses "a wrong key" "does not hold our key" sh -c "printf '%064d\n' 7 >'$DIR/wrong'; chmod 600 '$DIR/wrong'; \
	'$BIN/weka-mount' -o 'key=$DIR/wrong' '$SHM' '$MNT-4'"
refuses "no appliance there" "weka-mount" "$BIN/weka-mount" -o "key=$DIR/key" "shm:$DIR/nothing" "$MNT-4"
check "a directory of the appliance" mount_at "$MNT-4" root=/tree/sub,threads=1
is "is the root" "$(cd "$DIR/tree/sub" && ls | head -3)" "$(cd "$MNT-4" && ls | head -3)"
ln -s "$BIN/weka-mount" "$DIR/mount.weka"
mkdir "$MNT-5"
check "mount(8) -f mounts nothing" "$DIR/mount.weka" "$SHM" "$MNT-5" -f -o "rw,_netdev,x-systemd.automount,key=$DIR/key"
is "and nothing is there" "" "$(ls "$MNT-5")"
check "as mount(8) calls its helpers, without a key since root needs none" "$DIR/mount.weka" "$SHM" "$MNT-5" \
	-sv -o rw,nofail,noexec,_netdev,user -t weka
is "with the flags of a mount" "rw,nosuid,nodev,noexec" "$(awk -v m="$MNT-5" '$2 == m { print $4 }' /proc/mounts | cut -d, -f1-4)"
check "and everything is there" test -f "$MNT-5/tree/size-4096"
check "they are unmounted" umount "$MNT" "$MNT-2" "$MNT-4" "$MNT-5"
check "and their programs end" gone

# ---- a user who is not root ----
AS="setpriv --reuid 65534 --regid 65534 --clear-groups"
# Without udev /dev/fuse may be root's alone: then no other user mounts anything on this machine.
if command -v fusermount3 >/dev/null && $AS sh -c 'exec 3<>/dev/fuse' 2>/dev/null; then
	chmod 755 "$DIR"
	cp "$DIR/key" "$DIR/key.nobody" && chown 65534 "$DIR/key.nobody"
	mkdir "$MNT-6" && chown 65534 "$MNT-6" && mkdir "$MNT-7"
	export PATH="$PATH:/usr/bin:/bin"
	check "a user mounts on a directory of his own" $AS "$BIN/weka-mount" -o "key=$DIR/key.nobody" "$TCP" "$MNT-6"
	is "and sees the tree" "$(ls "$DIR/tree")" "$($AS ls "$MNT-6/tree")"
	refuses "root does not" "ermission denied" ls "$MNT-6"
	refuses "he may not write where the mode says no" "ermission denied" $AS touch "$MNT-6/new"
	check "the user unmounts" $AS fusermount3 -u "$MNT-6"
	refuses "not on one that is another's" "mount" $AS "$BIN/weka-mount" -o "key=$DIR/key.nobody" "$TCP" "$MNT-7"
	check "the program ends" gone
else
	ok "skipped: a user who is not root; that needs fusermount3, setpriv and a /dev/fuse that all may open"
fi
is "without a complaint" "" "$(cat "$DIR/mount.log")"
check "the appliance stops" stop
finish

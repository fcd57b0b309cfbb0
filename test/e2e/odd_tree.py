#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Trees for import and export, and a comparer that knows nothing of either.

    odd_tree.py make DIR ENTRIES SEED      a tree of everything that a name or a file can be
    odd_tree.py change DIR SEED            other types, content and times at some of its places
    odd_tree.py plant SOURCE DIR OUTSIDE SEED
                                           a target with symlinks and hard links to OUTSIDE where
                                           SOURCE has files and directories
    odd_tree.py compare A B                is all of A in B, and alike?  Prints what is not.
    odd_tree.py same A B                   ... and nothing else?
    odd_tree.py sum DIR                    one line for all that can be written in it

Everything goes by descriptors of directories: paths are longer than PATH_MAX.
"""
import errno, hashlib, os, random, resource, stat, sys

soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard < 65536 else 65536, hard))
sys.setrecursionlimit(20000)
BLOCK = 4096


def opendir(name, at=None):
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)


def put(at, name, content, mode=0o644, when=None):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=at)
    os.write(fd, content)
    os.fchmod(fd, mode)
    if when is not None:
        os.utime(fd, ns=(when, when))
    os.close(fd)


def put_sparse(at, name, size, pieces):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=at)
    os.ftruncate(fd, size)
    for offset, content in pieces:
        os.pwrite(fd, content, offset)
    os.close(fd)


# ---- make --------------------------------------------------------------------------------------


def odd_names():
    for byte in range(1, 256):
        if byte != 0x2F:
            yield b"b" + bytes([byte]) + b"e"
            yield bytes([byte]) if byte != 0x2E else b"..."
    yield b"x" * 255
    yield b"\xff" * 255
    for name in (b"-rf", b"*", b"a b", b" ", b"\n", b"a\nb", b"$HOME", b"..a", b".wk-part-1-0", b"%s%n"):
        yield name + b"~"


def deep(at, depth, name, bottom):
    fds = [at]
    for _ in range(depth):
        os.mkdir(name, dir_fd=fds[-1])
        fds.append(opendir(name, fds[-1]))
    put(fds[-1], b"bottom", bottom)
    os.symlink(b"bottom", b"to the bottom", dir_fd=fds[-1])
    for fd in reversed(fds[1:]):
        os.close(fd)


def odd_files(at):
    """All kinds but a great number."""
    os.mkdir(b"names", dir_fd=at)
    d = opendir(b"names", at)
    for i, name in enumerate(odd_names()):
        if i % 5 == 1:
            os.mkdir(name, dir_fd=d)
        elif i % 5 == 2:
            os.symlink(name, name, dir_fd=d)
        else:
            put(d, name, name, 0o400 + i % 8)
    os.close(d)
    os.mkdir(b"deep", dir_fd=at)
    d = opendir(b"deep", at)
    deep(d, 500, b"d", b"500 deep")
    deep(d, 40, b"l" * 255, b"longer than PATH_MAX")
    os.close(d)
    os.mkdir(b"holes", dir_fd=at)
    d = opendir(b"holes", at)
    put_sparse(d, b"1T, all hole", 1 << 40, [])
    put_sparse(d, b"1T", 1 << 40, [(0, b"a"), (1 << 39, b"b" * 5000), ((1 << 40) - 3, b"end")])
    put_sparse(d, b"2G", 2 << 30, [(1 << 30, b"c" * 8192)])
    put_sparse(d, b"every other block", 4 << 20, [(i * 2 * BLOCK, b"x" * BLOCK) for i in range(512)])
    put_sparse(d, b"small", 65536, [(8192, b"y" * 100)])
    put_sparse(d, b"small, all hole", 40000, [])
    put_sparse(d, b"unaligned", 3000001, [(1234567, b"z" * 7777), (3000000, b"!")])
    os.close(d)
    os.mkdir(b"links", dir_fd=at)
    d = opendir(b"links", at)
    put(d, b"file", b"three names")
    os.link(b"file", b"file 2", src_dir_fd=d, dst_dir_fd=d)
    os.link(b"file", b"file 3", src_dir_fd=d, dst_dir_fd=at)
    os.symlink(b"file", b"symlink", dir_fd=d)
    os.link(b"symlink", b"symlink 2", src_dir_fd=d, dst_dir_fd=d, follow_symlinks=False)
    os.symlink(b"nowhere", b"dangling", dir_fd=d)
    os.symlink(b"t" * 4095, b"long", dir_fd=d)
    os.symlink(b"..", b"up", dir_fd=d)
    os.symlink(b"/", b"root", dir_fd=d)
    os.symlink(b"loop", b"loop", dir_fd=d)
    os.close(d)
    os.mkdir(b"times", dir_fd=at)
    d = opendir(b"times", at)
    for seconds in (0, -1, 1, -2000000000, 2000000000, 5000000000, 9000000000):
        put(d, b"%d" % seconds, b"", 0o644, seconds * 1000000000 + 123456789)
    os.close(d)
    for size in (0, 1, 4095, 4096, 4097, 1 << 20, (1 << 20) + 1, 5000000):
        put(at, b"size %d" % size, random.randbytes(size))
    try:
        os.setxattr(b"/proc/self/fd/%d/size 1" % at, b"user.a", b"1" * 1000)
        os.setxattr(b"/proc/self/fd/%d/size 5000000" % at, b"user.b", b"")
        os.setxattr(b"/proc/self/fd/%d/links" % at, b"user.dir", b"\0x")
    except OSError:
        pass


def many(at, entries):
    """Small files, symlinks and directories, as random as they come."""
    fds, n = [at], 0
    while n < entries:
        d = random.choice(fds)
        name = b"%d" % n
        kind = random.random()
        if kind < 0.08:
            os.mkdir(name, 0o755, dir_fd=d)
            if len(fds) < 400:
                fds.append(opendir(name, d))
        elif kind < 0.35:
            os.symlink(random.choice([b"../%d" % (n // 2), b"/" + name, name]), name, dir_fd=d)
        else:
            put(d, name, random.randbytes(random.choice([0, 10, 100, 1000, 5000])), random.choice([0o644, 0o600, 0o444, 0]))
            if kind > 0.97:
                os.link(name, name + b"+", src_dir_fd=d, dst_dir_fd=random.choice(fds))
        n += 1
    for fd in fds[1:]:
        os.close(fd)


def make(top, entries):
    os.mkdir(top)
    at = opendir(top)
    odd_files(at)
    os.mkdir(b"many", dir_fd=at)
    d = opendir(b"many", at)
    many(d, entries)
    os.close(d)
    os.close(at)


# ---- change --------------------------------------------------------------------------------------


def remove(at, name):
    if stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
        d = opendir(name, at)
        for inner in os.listdir(d):
            remove(d, os.fsencode(inner))
        os.close(d)
        os.rmdir(name, dir_fd=at)
    else:
        os.unlink(name, dir_fd=at)


def walk(at, visit):
    """visit(at, name, mode) for each entry, parents first; it may replace the entry."""
    for name in sorted(os.fsencode(n) for n in os.listdir(at)):
        mode = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
        visit(at, name, mode)
        try:
            d = opendir(name, at)
        except OSError:
            continue
        walk(d, visit)
        os.close(d)


def change(top):
    """One entry of eight becomes something else: content, time, target or type."""
    count = [0]

    def visit(at, name, mode):
        if random.random() > 0.125:
            return
        count[0] += 1
        what = random.randrange(4)
        if stat.S_ISDIR(mode) and (name == b"d" or len(name) == 255):
            return  # deep ones stay
        if stat.S_ISDIR(mode) and what > 1:
            return
        remove(at, name)
        if what == 0:
            os.symlink(random.choice([b"..", b"../many", b"/", b"size 1"]), name, dir_fd=at)
        elif what == 1:
            put(at, name, b"changed %d" % count[0])
        elif what == 2:
            os.mkdir(name, dir_fd=at)
            d = opendir(name, at)
            put(d, b"in it", b"new %d" % count[0])
            os.close(d)
        # 3: it is gone

    at = opendir(top)
    walk(at, visit)
    os.close(at)


# ---- plant ----------------------------------------------------------------------------------------


def plant(source, top, outside):
    """Symlinks and hard links to `outside` where the source has something."""
    canaries = [os.path.join(outside, n) for n in (b"f", b"d", b"d/f", b"new")]

    def level(src, dst):
        for name in sorted(os.fsencode(n) for n in os.listdir(src)):
            mode = os.stat(name, dir_fd=src, follow_symlinks=False).st_mode
            what = random.randrange(8)
            if what < 3:
                os.symlink(random.choice(canaries), name, dir_fd=dst)
            elif what == 3:
                os.link(canaries[0], name, dst_dir_fd=dst)
            elif what == 4:
                put(dst, name, b"in the way")
            elif what == 5 and stat.S_ISDIR(mode):
                os.mkdir(name, 0o500, dir_fd=dst)
                s, d = opendir(name, src), opendir(name, dst)
                level(s, d)
                os.close(s)
                os.close(d)
            elif what == 5:
                os.mkdir(name, dir_fd=dst)

    os.mkdir(outside)
    os.mkdir(os.path.join(outside, b"d"))
    for name in (b"f", b"d/f"):
        with open(os.path.join(outside, name), "wb") as f:
            f.write(b"canary\n")
    os.mkdir(top)
    s, d = opendir(source), opendir(top)
    level(s, d)
    os.close(s)
    os.close(d)


# ---- compare ----------------------------------------------------------------------------------------


class Comparer:
    def __init__(self, exact):
        self.exact, self.wrong, self.seen, self.groups = exact, 0, 0, {}

    def say(self, path, what):
        self.wrong += 1
        if self.wrong <= 20:
            print("%s: %s" % (path.decode("utf-8", "backslashreplace")[-300:], what))

    def attributes(self, fd):
        try:
            return sorted((n, os.getxattr(fd, n)) for n in os.listxattr(fd) if n.startswith("user."))
        except OSError as e:
            return [] if e.errno == errno.ENOTSUP else ["?"]

    def pieces(self, fd, size):
        """The data of a file as (offset, bytes), holes left out."""
        at = 0
        while at < size:
            try:
                at = os.lseek(fd, at, os.SEEK_DATA)
            except OSError:
                return
            end = os.lseek(fd, at, os.SEEK_HOLE)
            while at < end:
                got = os.pread(fd, min(end - at, 1 << 20), at)
                if not got:
                    return
                yield at, got
                at += len(got)

    def digest(self, fd, size):
        """Of the content; zeros and holes are the same."""
        sums = hashlib.sha256()
        for at, got in self.pieces(fd, size):
            start = at - at % BLOCK
            got = b"\0" * (at - start) + got
            for i in range(0, len(got), BLOCK):
                block = got[i : i + BLOCK]
                if block.strip(b"\0"):
                    sums.update(b"%d " % (start + i) + block.rstrip(b"\0"))
        return sums.digest()

    def file(self, a, b, name, path, st):
        fds = [os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=d) for d in (a, b)]
        if self.digest(fds[0], st[0].st_size) != self.digest(fds[1], st[1].st_size):
            self.say(path, "content differs")
        if self.attributes(fds[0]) != self.attributes(fds[1]):
            self.say(path, "attributes differ")
        if st[1].st_blocks > 2 * st[0].st_blocks + 256:
            self.say(path, "%d KiB on the disk, not %d" % (st[1].st_blocks // 2, st[0].st_blocks // 2))
        for fd in fds:
            os.close(fd)

    def one(self, a, b, name, path):
        self.seen += 1
        try:
            st = [os.stat(name, dir_fd=d, follow_symlinks=False) for d in (a, b)]
        except OSError as e:
            return self.say(path, e.strerror)
        if stat.S_IFMT(st[0].st_mode) != stat.S_IFMT(st[1].st_mode):
            return self.say(path, "of another type")
        if st[0].st_mode != st[1].st_mode:
            self.say(path, "mode %o, not %o" % (st[1].st_mode, st[0].st_mode))
        if st[0].st_mtime_ns != st[1].st_mtime_ns:
            self.say(path, "time %d, not %d" % (st[1].st_mtime_ns, st[0].st_mtime_ns))
        if not stat.S_ISDIR(st[0].st_mode) and st[0].st_size != st[1].st_size:
            return self.say(path, "size %d, not %d" % (st[1].st_size, st[0].st_size))
        if not stat.S_ISDIR(st[0].st_mode) and st[0].st_nlink > 1:
            was = self.groups.setdefault(st[0].st_ino, st[1].st_ino)
            if was != st[1].st_ino:
                self.say(path, "another file than its other names")
        if stat.S_ISLNK(st[0].st_mode):
            if os.readlink(name, dir_fd=a) != os.readlink(name, dir_fd=b):
                self.say(path, "another target")
        elif stat.S_ISREG(st[0].st_mode):
            self.file(a, b, name, path, st)
        elif stat.S_ISDIR(st[0].st_mode):
            da, db = opendir(name, a), opendir(name, b)
            if self.attributes(da) != self.attributes(db):
                self.say(path, "attributes differ")
            self.level(da, db, path)
            os.close(da)
            os.close(db)

    def level(self, a, b, path):
        names = [set(os.fsencode(n) for n in os.listdir(d)) for d in (a, b)]
        if self.exact:
            for name in sorted(names[1] - names[0]):
                self.say(path + b"/" + name, "is not in the first tree")
        for name in sorted(names[0]):
            self.one(a, b, name, path + b"/" + name)


def compare(a, b, exact):
    c = Comparer(exact)
    da, db = opendir(a), opendir(b)
    c.level(da, db, b"")
    print("%d entries, %d differences" % (c.seen, c.wrong))
    return 1 if c.wrong or not c.seen else 0


def tree_sum(top):
    sums = hashlib.sha256()

    def visit(at, name, mode):
        st = os.stat(name, dir_fd=at, follow_symlinks=False)
        sums.update(b"%s %o %d %d %d\n" % (name, mode, st.st_uid, st.st_size, st.st_mtime_ns))
        if stat.S_ISREG(mode):
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=at)
            sums.update(os.read(fd, 1 << 20))
            os.close(fd)

    at = opendir(top)
    walk(at, visit)
    print(sums.hexdigest())


def main():
    what, args = sys.argv[1], [os.fsencode(a) for a in sys.argv[2:]]
    if what in ("make", "change", "plant"):
        random.seed(int(args[-1]))
    if what == "make":
        make(args[0], int(args[1]))
    elif what == "change":
        change(args[0])
    elif what == "plant":
        plant(*args[:3])
    elif what == "sum":
        tree_sum(args[0])
    else:
        return compare(args[0], args[1], what == "same")
    return 0


sys.exit(main())

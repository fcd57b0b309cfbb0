# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Calls on files, one by one, and their errors:

    mount_cases.py DIR REFERENCE LIST EVERY PROCESSES    runs cases in both directories, compares, prints

A case is a user, a call, and one or two paths in a small tree.  LIST is a table of the errors that
cases must have; REFERENCE is on a local file system, which must have the same error, and the same
tree afterwards.  "EONE->ETWO" are cases in which the mount differs on purpose (weka-mount(8)), and has
ETWO.  Every EVERYth case is run; processes share them, each with trees of its own.
--write REFERENCE LIST makes the list."""
import ctypes
import errno
import hashlib
import os
import shutil
import stat
import struct
import sys

libc = ctypes.CDLL(None, use_errno=True)
AT, NOREPLACE, EXCHANGE = -100, 1, 2
USER, OTHER = 65534, 65533
LONG, TOO_LONG, PATH = "l" * 255, "l" * 256, "d/" * 2048 + "x"
TREE_DIRS = {"e": 0o755, "d": 0o755, "d/sub": 0o755, "u": 0o755, "n": 0o700, "t": 0o1777, "w": 0o777, "g": 0o2777,
             "x": 0o711}
TREE_FILES = {"f": 0o644, "r": 0o444, "p": 0o600, "z": 0o4755, "d/x": 0o644, "u/x": 0o600, "n/x": 0o644, "t/mine": 0o644,
              "t/root": 0o666, "w/f": 0o666, "x/f": 0o644, LONG: 0o644}
TREE_LINKS = {"s": "f", "sd": "d", "sn": "missing", "sl": "sl", "sp": "n/x"}
OWNED = ["u", "u/x", "t/mine"]
PLACES = ["f", "r", "p", "z", "e", "d", "s", "sd", "sn", "sl", "sp", "missing", "d/x", "d/missing", "u", "u/x", "u/missing",
          "n/x", "n/missing", "t/mine", "t/root", "t/missing", "w/f", "w/missing", "x/f", "x/missing", "g/missing", "f/x",
          "missing/x", "sl/x", "sd/x", "sn/x", "e/", "f/", "missing/", "s/", "sd/", "d/.", "d/..", "", LONG, TOO_LONG, PATH]
PAIRS = ["f", "e", "d", "s", "sd", "missing", "d/x", "u/x", "u/missing", "t/mine", "t/root", "w/f", "w/missing", "n/x", "f/x",
         "missing/x", "e/", TOO_LONG]


def opened(flags):
    def call(path):
        fd = os.open(path, flags, 0o666)
        try:
            if flags & (os.O_WRONLY | os.O_RDWR):
                os.write(fd, b"new")
            elif not flags & os.O_PATH and stat.S_ISREG(os.fstat(fd).st_mode):
                os.read(fd, 100)
        finally:
            os.close(fd)
    return call


def checked(result):
    if result:
        raise OSError(ctypes.get_errno(), "")


def rename2(a, b, flags):
    checked(libc.renameat2(AT, os.fsencode(a), AT, os.fsencode(b), flags))


def allowed(mode):
    def call(path):
        if not os.access(path, mode, effective_ids=True):
            raise OSError(errno.EACCES, "")
    return call


def listed(path):
    names = sorted(os.listdir(path))
    for name in names:
        os.lstat(os.path.join(path, name))


ONE = {
    "open-r": opened(os.O_RDONLY), "open-w": opened(os.O_WRONLY), "open-rw": opened(os.O_RDWR),
    "open-append": opened(os.O_WRONLY | os.O_APPEND), "open-trunc": opened(os.O_WRONLY | os.O_TRUNC),
    "open-creat": opened(os.O_WRONLY | os.O_CREAT), "open-excl": opened(os.O_WRONLY | os.O_CREAT | os.O_EXCL),
    "open-creat-trunc": opened(os.O_RDWR | os.O_CREAT | os.O_TRUNC), "open-dir": opened(os.O_RDONLY | os.O_DIRECTORY),
    "open-nofollow": opened(os.O_RDONLY | os.O_NOFOLLOW), "open-path": opened(os.O_PATH),
    "open-creat-nofollow": opened(os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW),
    "stat": os.stat, "lstat": os.lstat, "statvfs": os.statvfs, "readlink": os.readlink, "list": listed,
    "mkdir": lambda p: os.mkdir(p, 0o755), "rmdir": os.rmdir, "unlink": os.unlink,
    "mknod": lambda p: os.mknod(p, stat.S_IFREG | 0o644), "mkfifo": lambda p: os.mkfifo(p, 0o644),
    "symlink": lambda p: os.symlink("target", p),
    "truncate-0": lambda p: os.truncate(p, 0), "truncate-5": lambda p: os.truncate(p, 5),
    "truncate-9999": lambda p: os.truncate(p, 9999), "truncate-neg": lambda p: os.truncate(p, -1),
    "chmod": lambda p: os.chmod(p, 0o751), "chmod-suid": lambda p: os.chmod(p, 0o6755),
    "chown-user": lambda p: os.chown(p, USER, USER), "chown-none": lambda p: os.chown(p, -1, -1),
    "lchown": lambda p: os.lchown(p, OTHER, OTHER),
    "utime": lambda p: os.utime(p, ns=(10**18, 10**18 + 7)), "utime-now": os.utime,
    "access-f": allowed(os.F_OK), "access-r": allowed(os.R_OK), "access-w": allowed(os.W_OK), "access-x": allowed(os.X_OK),
    "setxattr": lambda p: os.setxattr(p, "user.a", b"value"),
    "getxattr": lambda p: os.getxattr(p, "user.a"), "listxattr": os.listxattr,
    "removexattr": lambda p: os.removexattr(p, "user.a"), "chdir": lambda p: os.close(os.open(p, os.O_PATH | os.O_DIRECTORY)),
}
TWO = {
    "rename": os.rename, "link": lambda a, b: os.link(a, b, follow_symlinks=False),
    "rename-noreplace": lambda a, b: rename2(a, b, NOREPLACE), "exchange": lambda a, b: rename2(a, b, EXCHANGE),
}


DIFFERS = {("mkfifo", "ok"): "EPERM"}


def build(root):
    shutil.rmtree(root, ignore_errors=True)
    os.mkdir(root, 0o755)
    for path, mode in TREE_DIRS.items():
        os.mkdir(f"{root}/{path}")
        os.chmod(f"{root}/{path}", mode)
    for path, mode in TREE_FILES.items():
        with open(f"{root}/{path}", "wb") as f:
            f.write(b"content of " + path[:10].encode())
        os.chmod(f"{root}/{path}", mode)
    for path, target in TREE_LINKS.items():
        os.symlink(target, f"{root}/{path}")
    for path in OWNED:
        os.chown(f"{root}/{path}", USER, USER)
    os.link(f"{root}/f", f"{root}/hard")


def describe(root):
    lines = []
    for where, dirs, files in os.walk(root):
        for name in sorted(dirs + files):
            path = os.path.join(where, name)
            st = os.lstat(path)
            line = [path[len(root):], oct(st.st_mode), st.st_uid, st.st_gid]
            if stat.S_ISLNK(st.st_mode):
                line.append(os.readlink(path))
            if stat.S_ISREG(st.st_mode):
                with open(path, "rb") as f:
                    line += [st.st_size, st.st_nlink, hashlib.sha256(f.read()).hexdigest()[:8]]
            if not stat.S_ISLNK(st.st_mode):
                line.append(sorted(os.listxattr(path)))
            lines.append(line)
    return sorted(map(str, lines))


def as_user(user, call, args):
    if user:
        os.setgroups([])
        os.setegid(user)
        os.seteuid(user)
    try:
        call(*args)
        return "ok"
    except OSError as e:
        return errno.errorcode[e.errno]
    finally:
        if user:
            os.seteuid(0)
            os.setegid(0)


class Place:
    """A directory in which cases run; its tree is rebuilt when a case changed it."""

    def __init__(self, root):
        self.root = os.path.join(os.path.abspath(root), "tree")
        build(self.root)
        self.fresh = describe(self.root)
        self.changed = False
        self.look = 0

    def run(self, user, call, args):
        if self.changed:
            build(self.root)
        os.chdir(self.root)
        result = as_user(user, call, args)
        os.chdir("/")
        self.look += 1
        if result != "ok" and self.look % 16:
            return result, self.fresh  # seldom looked at: it takes long
        after = describe(self.root)
        self.changed = after != self.fresh
        return result, after


def cases():
    for who, user in (("root", 0), ("user", USER)):
        for name, call in ONE.items():
            for path in PLACES:
                yield f"{who} {name} {short(path)}", user, call, [path]
        for name, call in TWO.items():
            for a in PAIRS:
                for b in PAIRS:
                    yield f"{who} {name} {short(a)} {short(b)}", user, call, [a, b]


def short(path):
    return {"": '""', LONG: "LONG", TOO_LONG: "TOO-LONG", PATH: "LONG-PATH"}.get(path, path)


def table_line(name):
    """The line and the column of a case: the last path is the column."""
    return name.rsplit(" ", 1)


def write(reference, to):
    to, there, table = os.path.abspath(to), Place(reference), {}
    for name, user, call, args in cases():
        line, column = table_line(name)
        result = there.run(user, call, args)[0]
        if (line.split()[1], result) in DIFFERS:
            result += "->" + DIFFERS[line.split()[1], result]
        table.setdefault(line, {}).setdefault(result, []).append(column)
    with open(to, "w") as f:
        for line, results in table.items():
            print(f"{line}: " + " | ".join(" ".join([result, *columns]) for result, columns in results.items()), file=f)


def read(lines):
    """Returns {case: (error on a local file system, error of the mount)}."""
    wanted = {}
    for text in lines:
        line, _, results = text.rstrip("\n").partition(": ")
        for part in results.split(" | "):
            result, *columns = part.split()
            local, _, here = result.partition("->")
            wanted.update({f"{line} {column}": (local, here or local) for column in columns})
    return wanted


def compare(here, reference, wanted, chosen):
    """Runs the chosen cases, prints what is wrong, and returns how many there are and were wrong."""
    mount, local = Place(here), Place(reference)
    bad = 0
    for name, user, call, args in chosen:
        (got, tree), (other, same) = mount.run(user, call, args), local.run(user, call, args)
        local_wanted, here_wanted = wanted.get(name, ("a line in the list", ""))
        if (other, got) != (local_wanted, here_wanted):
            print(f"{name}: {got}, on the local file system {other}; the list says {local_wanted} {here_wanted}")
        elif here_wanted == local_wanted and tree != same:
            print(f"{name}: {got}, and another tree: {sorted(set(tree) ^ set(same))[:4]}")
        else:
            continue
        bad += 1
    return len(chosen), bad


def share(here, reference, wanted, chosen, to):
    """Compares in a child, which writes its two numbers."""
    child = os.fork()
    if child:
        return child
    for place in (here, reference):
        os.mkdir(place)
    os.write(to, struct.pack("=QQ", *compare(here, reference, wanted, chosen)))
    sys.stdout.flush()
    os._exit(0)


def compare_shared(here, reference, wanted, every, processes):
    here, reference = os.path.abspath(here), os.path.abspath(reference)
    chosen, (result, to), count, bad = list(cases())[::every], os.pipe(), 0, 0
    children = [share(f"{here}/{i}", f"{reference}/{i}", wanted, chosen[i::processes], to) for i in range(processes)]
    codes = [os.waitpid(child, 0)[1] for child in children]
    os.close(to)
    with os.fdopen(result, "rb") as f:
        for each, wrong in struct.iter_unpack("=QQ", f.read()):
            count, bad = count + each, bad + wrong
    print(f"{count} cases, {bad} wrong")
    return any(codes) or count != len(chosen) or bad


if __name__ == "__main__":
    if sys.argv[1] == "--write":
        write(sys.argv[2], sys.argv[3])
        sys.exit(0)
    with open(sys.argv[3]) as lines:
        wanted = read(line for line in lines if not line.startswith("#"))
    sys.exit(bool(compare_shared(sys.argv[1], sys.argv[2], wanted, int(sys.argv[4]), int(sys.argv[5]))))

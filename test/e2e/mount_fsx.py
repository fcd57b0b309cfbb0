# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Random operations on one file beside a model of its bytes, as fsx does:

    mount_fsx.py FILE SAME OPERATIONS SEED

FILE is on a mount, SAME is the same file through another mount, which reads it, too.  The first
operation whose result is not the model's is printed with the ones before it."""
import ctypes
import errno
import mmap
import os
import random
import sys

SIZE_MAX = 3 << 20
libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]


class Wrong(Exception):
    pass


class Fsx:
    def __init__(self, path, same, seed):
        self.path, self.same = path, same
        self.rand = random.Random(seed)
        self.model = bytearray()
        self.log = []
        self.fd = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o644)
        self.other = os.open(same, os.O_RDONLY)

    def say(self, *words):
        self.log.append(" ".join(map(str, words)))

    def range(self, most=200000):
        """An offset and a length, often at the edge of a block or of the file."""
        edge = self.rand.choice([0, 4096, 65536, 1 << 20, len(self.model), self.rand.randrange(SIZE_MAX)])
        offset = max(0, min(SIZE_MAX - 1, edge + self.rand.randrange(-20, 20)))
        return offset, self.rand.choice([1, 100, 4095, 4096, 4097, self.rand.randrange(1, most)])

    def grow(self, size):
        if size > len(self.model):
            self.model.extend(bytes(size - len(self.model)))

    def compare(self, what, got, offset, length):
        want = bytes(self.model[offset:offset + length])
        if got != want:
            at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
            raise Wrong(f"{what} {offset} + {length}: {len(got)} bytes, not {len(want)}; differ from {offset + at} on")

    def read(self, fd, name):
        offset, length = self.range(1 << 20)
        self.say(name, offset, length)
        self.compare(name, os.pread(fd, length, offset), offset, length)

    def do_read(self):
        self.read(self.fd, "read")

    def do_read_same(self):
        self.read(self.other, "read by the other mount")

    def do_write(self):
        offset, length = self.range(1 << 20)
        length = min(length, SIZE_MAX - offset)
        data = self.rand.randbytes(length)
        self.say("write", offset, length)
        at = 0
        while at < length:
            at += os.pwrite(self.fd, data[at:], offset + at)
        self.grow(offset + length)
        self.model[offset:offset + length] = data

    def do_append(self):
        data = self.rand.randbytes(self.rand.choice([1, 10, 5000, 100000]))
        if len(self.model) + len(data) > SIZE_MAX:
            return
        self.say("append", len(data), "at", len(self.model))
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        os.write(fd, data)
        os.close(fd)
        self.model.extend(data)

    def do_truncate(self):
        size = self.range()[0]
        self.say("truncate", size)
        os.ftruncate(self.fd, size)
        del self.model[size:]
        self.grow(size)

    def do_punch(self):
        offset, length = self.range()
        self.say("punch", offset, length)
        if libc.fallocate(self.fd, 3, offset, length):
            raise OSError(ctypes.get_errno(), "punch")
        end = min(offset + length, len(self.model))
        if end > offset:
            self.model[offset:end] = bytes(end - offset)

    def do_map_read(self):
        offset, length = self.range()
        offset = offset // 4096 * 4096
        length = min(length, len(self.model) - offset)
        if length <= 0:
            return
        self.say("map and read", offset, length)
        with mmap.mmap(self.fd, length, mmap.MAP_PRIVATE, mmap.PROT_READ, offset=offset) as m:
            self.compare("map", m[:], offset, length)

    def do_map_write(self):
        offset, length = self.range(50000)
        offset = offset // 4096 * 4096
        length = min(length, len(self.model) - offset)
        if length <= 0:
            return
        self.say("map and write", offset, length)
        data = self.rand.randbytes(length)
        with mmap.mmap(self.fd, length, mmap.MAP_SHARED, offset=offset) as m:
            m[:] = data
            m.flush()
        self.model[offset:offset + length] = data

    def do_size(self):
        self.say("size")
        sizes = os.fstat(self.fd).st_size, os.stat(self.same).st_size, os.lseek(self.fd, 0, os.SEEK_END)
        if sizes != (len(self.model),) * 3:
            raise Wrong(f"sizes {sizes}, not {len(self.model)}")

    def do_seek(self):
        """What SEEK_HOLE says is a hole is zeros; data come before a hole."""
        if not self.model:
            return
        offset = self.rand.randrange(len(self.model))
        self.say("seek", offset)
        try:
            data = os.lseek(self.fd, offset, os.SEEK_DATA)
        except OSError as e:
            if e.errno != errno.ENXIO:
                raise
            data = len(self.model)
        if any(self.model[offset:data]):
            raise Wrong(f"no data from {offset} to {data}, and there are some")
        if offset <= os.lseek(self.fd, offset, os.SEEK_HOLE) <= len(self.model):
            return
        raise Wrong("a hole out of the file")

    def do_reopen(self):
        self.say("reopen")
        os.close(self.fd)
        os.close(self.other)
        self.fd = os.open(self.path, os.O_RDWR)
        self.other = os.open(self.same, os.O_RDONLY)

    def do_rename(self):
        self.say("rename")
        os.rename(self.path, self.path + ".moved")
        os.rename(self.path + ".moved", self.path)

    def do_sync(self):
        os.fsync(self.fd)

    def run(self, count):
        does = [getattr(self, name) for name in sorted(dir(self)) if name.startswith("do_")]
        weights = [8 if f.__name__ in ("do_read", "do_write", "do_read_same") else 2 for f in does]
        for _ in range(count):
            self.rand.choices(does, weights)[0]()
        for fd, path in ((self.fd, self.path), (self.other, self.same)):
            with open(path, "rb") as f:
                self.compare("the whole of " + path, f.read(), 0, SIZE_MAX)
            os.close(fd)


path, same, count, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
fsx = Fsx(path, same, seed)
try:
    fsx.run(count)
except (Wrong, OSError) as e:
    print(f"seed {seed}, operation {len(fsx.log)}: {e!r}; the last ones:", *fsx.log[-12:], sep="\n  ")
    sys.exit(1)
print(f"seed {seed}: {count} operations")

# SPDX-License-Identifier: BSD-2-Clause-Patent
"""weka-mount is killed again and again while programs change files through it:

    mount_kills.py MOUNT KILLS PROCESSES SEED STATUS COMMAND...

COMMAND and a directory mount in the foreground; the directories are MOUNT1, MOUNT2, ...  Each program
has a directory of its own and a model of what is in it.  A call that was cut off was made or was not
made; all that returned before is there at the next mount.  The programs remove all at the end.

The appliance may still make a call that it has got when the process that sent it is gone.  So the next
mount is used when STATUS, a command, says that the sessions of the one before have ended."""
import ctypes
import errno
import json
import mmap
import os
import random
import struct
import subprocess
import sys
import time
import traceback

libc = ctypes.CDLL(None, use_errno=True)
MNT_DETACH = 2
SIZE_MAX = 300000
GONE = (errno.ENOTCONN, errno.ECONNABORTED)


class Shared:
    """What all processes see: the number of the mount that can be used, and whether it is the last one."""

    def __init__(self):
        self.memory = mmap.mmap(-1, 16)

    def say(self, number, last=0):
        self.memory[:] = struct.pack("=QQ", number, last)

    def get(self):
        return struct.unpack("=QQ", self.memory[:])


class Wrong(Exception):
    pass


class Program:
    def __init__(self, where, shared, seed):
        self.where, self.shared = where, shared
        self.rand, self.home = random.Random(seed), f"p{seed}"
        self.model, self.pending = {}, None  # name: its content; the names that a call changes: before, after
        self.root, self.number, self.counts, self.cut_off = -1, 0, [0, 0, 0], None

    # ---- one mount after the other ----
    def attach(self):
        """Opens the directory in the next mount, and looks what became of the call that was cut off."""
        while self.shared.get()[0] == self.number:
            time.sleep(0.001)
        self.number = self.shared.get()[0]
        if self.root >= 0:
            os.close(self.root)
        self.root = -1
        root = os.open(f"{self.where}{self.number}", os.O_RDONLY | os.O_DIRECTORY)
        try:
            if os.fstat(root).st_dev == os.stat(os.path.dirname(self.where)).st_dev:
                raise OSError(errno.ENOTCONN, "late: it is unmounted already")
            self.root = os.open(self.home, os.O_RDONLY | os.O_DIRECTORY, dir_fd=root)
        finally:
            os.close(root)
        if self.pending:
            before, after = self.pending
            seen = {name: self.content(name) for name in before}
            if seen not in (before, after):
                raise Wrong(f"a call was cut off; {short(before)} is {short(seen)}, not {short(after)}")
            self.model.update(seen)
            self.cut_off = before, after, seen == after
            self.counts[1 + (seen == after and after != before)] += 1
            self.pending = None

    def content(self, name):
        try:
            st = os.stat(name, dir_fd=self.root, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if st.st_mode & 0o170000 == 0o040000:
            return "a directory"
        if st.st_mode & 0o170000 == 0o120000:
            return "-> " + os.readlink(name, dir_fd=self.root)
        fd = os.open(name, os.O_RDONLY, dir_fd=self.root)
        try:
            return os.pread(fd, 2 * SIZE_MAX, 0)
        finally:
            os.close(fd)

    def compare(self, name, got, want, what):
        if got == want:
            return
        text = f"{name} after {what}: {short({name: got})}, not {short({name: want})}"
        if isinstance(got, bytes) and isinstance(want, bytes):
            differ = [i for i in range(min(len(got), len(want))) if got[i] != want[i]]
            text += f"; {len(differ)} differ, from {differ[:1]} to {differ[-1:]}"
        if self.cut_off:
            before, after, made = self.cut_off
            text += f"; the last call that was cut off: {short(before)} to {short(after)}, {'' if made else 'not '}made"
            text += f"; these are its bytes: {got == after.get(name)}"
        raise Wrong(text)

    # ---- calls ----
    def changes(self, after, call, *args, **kwargs):
        """Makes a call that changes names to `after`."""
        self.pending = {name: self.model.get(name) for name in after}, after
        call(*args, **kwargs)
        self.model.update(after)
        self.pending = None

    def change_file(self, name, fd, data):
        kind = self.rand.choice(["write", "append", "truncate", "read", "unlink"])
        if kind == "write":
            at, more = self.rand.randrange(len(data) + 1), self.rand.randbytes(self.rand.choice([1, 4096, 70000]))
            if at + len(more) <= SIZE_MAX:
                self.changes({name: data[:at] + more + data[at + len(more):]}, os.pwrite, fd, more, at)
        elif kind == "append" and len(data) + 5000 <= SIZE_MAX:
            more = self.rand.randbytes(5000)
            end = os.open(name, os.O_WRONLY | os.O_APPEND, dir_fd=self.root)
            try:
                self.changes({name: data + more}, os.write, end, more)
            finally:
                os.close(end)
        elif kind == "truncate":
            size = self.rand.randrange(len(data) + 1)
            self.changes({name: data[:size]}, os.ftruncate, fd, size)
        elif kind == "unlink":  # the bytes stay while the file is open
            self.changes({name: None}, os.unlink, name, dir_fd=self.root)
        self.compare(name, os.pread(fd, 2 * SIZE_MAX, 0), self.model[name] if kind != "unlink" else data, kind)

    def turn(self):
        name, other = (f"f{self.rand.randrange(6)}" for _ in range(2))
        here = self.model.get(name)
        if here is None:
            kind = self.rand.choice(["create", "create", "create", "mkdir", "symlink"])
            if kind == "create":
                self.changes({name: b""}, lambda: os.close(
                    os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, dir_fd=self.root)))
            elif kind == "mkdir":
                self.changes({name: "a directory"}, os.mkdir, name, dir_fd=self.root)
            else:
                self.changes({name: "-> target"}, os.symlink, "target", name, dir_fd=self.root)
        elif here == "a directory":
            self.changes({name: None}, os.rmdir, name, dir_fd=self.root)
        elif isinstance(here, str):
            self.changes({name: None}, os.unlink, name, dir_fd=self.root)
        elif self.rand.random() < 0.2 and name != other and not isinstance(self.model.get(other), str):
            self.changes({name: None, other: here}, os.rename, name, other, src_dir_fd=self.root, dst_dir_fd=self.root)
        else:
            fd = os.open(name, os.O_RDWR, dir_fd=self.root)
            try:
                self.change_file(name, fd, here)
            finally:
                os.close(fd)
        self.counts[0] += 1

    def verify(self):
        names = {name: here for name, here in self.model.items() if here is not None}
        if sorted(os.listdir(self.root)) != sorted(names):
            raise Wrong(f"there are {sorted(os.listdir(self.root))}, not {sorted(names)}")
        for name, here in names.items():
            self.compare(name, self.content(name), here, "mount")

    def clean(self):
        self.verify()
        for name, here in list(self.model.items()):
            if here is not None:
                (os.rmdir if here == "a directory" else os.unlink)(name, dir_fd=self.root)
        os.rmdir(f"../{self.home}", dir_fd=self.root)

    def run(self):
        while True:
            try:
                self.attach()
                self.verify()
                while not (self.shared.get()[1] and self.shared.get()[0] == self.number):
                    self.turn()
                self.clean()
                return
            except OSError as e:
                late = e.errno == errno.ENOENT and not os.path.exists(f"{self.where}{self.number}")
                if e.errno not in GONE and not late:
                    raise


def short(names):
    return {name: here if isinstance(here, str) else here and f"{len(here)} bytes" for name, here in names.items()}


def mounted(command, where, number):
    """Mounts; returns the process.  An appliance that is away is asked again."""
    place = f"{where}{number}"
    os.mkdir(place)
    device = os.stat(place).st_dev
    while True:
        process = subprocess.Popen([*command, place], stderr=subprocess.DEVNULL)
        while process.poll() is None:
            if os.stat(place).st_dev != device:
                return process
            time.sleep(0.001)


def wait_for_end(status, process, transport):
    """Waits until the appliance has no session of a process that has ended."""
    while True:
        got = subprocess.run(status, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if got.returncode == 0:
            clients = json.loads(got.stdout)["clients"]
            own = f", process {process.pid}"
            if not any(c["peer"].endswith(own) or c["transport"] == transport == "tcp" for c in clients):
                return
        time.sleep(0.005)


def unmounted(process, where, number):
    process.kill()
    process.wait()
    place = f"{where}{number}"
    if libc.umount2(place.encode(), MNT_DETACH):
        raise OSError(ctypes.get_errno(), "umount " + place)
    os.rmdir(place)


def program(where, shared, seed):
    child = os.fork()
    if child:
        return child
    p = Program(where, shared, seed)
    try:
        p.run()
    except (OSError, Wrong):
        print(f"program {seed}, mount {p.number}, doing {p.pending and short(p.pending[0])}:")
        traceback.print_exc(file=sys.stdout)
        sys.stdout.flush()
        os._exit(1)
    print(f"program {seed}: {p.counts[0]} turns; cut off: {p.counts[1]} not made, {p.counts[2]} made", flush=True)
    os._exit(0)


def main(where, kills, processes, seed, status, *command):
    rand, shared, children = random.Random(int(seed)), Shared(), []
    process = mounted(command, where, 1)
    for i in range(int(processes)):
        os.mkdir(f"{where}1/p{int(seed) + i}")
        children.append(program(where, shared, int(seed) + i))
    for number in range(1, int(kills) + 1):
        shared.say(number)
        time.sleep(rand.random() ** 2 * 0.2)
        unmounted(process, where, number)
        wait_for_end(status.split(), process, command[-1].split(":")[0])
        process = mounted(command, where, number + 1)
    shared.say(int(kills) + 1, 1)
    bad = any([os.waitpid(child, 0)[1] for child in children])
    unmounted(process, where, int(kills) + 1)
    print(f"seed {seed}: {kills} kills")
    return bad


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

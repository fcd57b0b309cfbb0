# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Busy with files below a mount, in several processes, until a file named `stop` exists beside it:

    mount_busy.py DIR STOP PROCESSES

Each process makes, appends to, overwrites, renames, reads and removes files whose bytes follow from
their names, and compares what it reads.  An error of the system or a wrong byte is printed."""
import errno
import hashlib
import os
import random
import sys
import time


def content(name, size):
    seed = hashlib.sha256(name.encode()).digest()
    return (seed * (size // len(seed) + 1))[:size]


def check(path, name, size):
    with open(path, "rb") as f:
        got = f.read()
    if got != content(name, size):
        raise AssertionError(f"{path}: {len(got)} bytes, not the {size} that were written")


def check_unnamed(f, name, size):
    """An appliance that was restarted no longer has a file that had no name."""
    try:
        f.seek(0)
        got = f.read()
    except OSError as e:
        if e.errno != errno.ESTALE:
            raise
    else:
        if got != content(name, size):
            raise AssertionError(f"{name}: other bytes after it was removed")


def turn(rand, root, count):
    name = f"f{rand.randrange(40)}"
    path = os.path.join(root, name)
    size = rand.choice([0, 1, 100, 4095, 4096, 4097, 70000, 300001])
    with open(path, "wb") as f:
        f.write(content(name, size // 2))
    with open(path, "ab") as f:
        f.write(content(name, size)[size // 2:])
    check(path, name, size)
    os.rename(path, path + ".moved")
    check(path + ".moved", name, size)
    if not os.path.exists(path + ".moved") or os.path.exists(path):
        raise AssertionError(f"{path}: a rename is not to be seen")
    with open(path + ".moved", "r+b") as f:
        if size > 10:
            f.seek(size // 3)
            f.write(content(name, size)[size // 3:])
            f.flush()  # a file without a name may be gone when it is closed, and take no more bytes
        os.unlink(path + ".moved")
        check_unnamed(f, name, size)
    os.mkdir(path + ".d")
    os.rmdir(path + ".d")
    return count + 1


def work(root, stop, seed):
    rand = random.Random(seed)
    root = os.path.join(root, f"p{seed}")
    os.makedirs(root, exist_ok=True)
    count, slowest = 0, 0.0
    try:
        while not os.path.exists(stop):
            began = time.monotonic()
            count = turn(rand, root, count)
            slowest = max(slowest, time.monotonic() - began)
    except (OSError, AssertionError) as e:
        print(f"process {seed}: {e!r}", flush=True)
        os._exit(1)
    if os.listdir(root):
        print(f"process {seed}: left {os.listdir(root)}")
        os._exit(1)
    print(f"process {seed}: {count} turns, the slowest {slowest:.1f} s", flush=True)
    os._exit(0)


root, stop, processes = sys.argv[1], sys.argv[2], int(sys.argv[3])
children = []
for i in range(processes):
    child = os.fork()
    if child == 0:
        work(root, stop, i)
    children.append(child)
sys.exit(any(os.waitpid(child, 0)[1] for child in children))

# SPDX-License-Identifier: BSD-2-Clause-Patent
"""What Python does with files, in a directory that libweka-preload.so serves:

    preload_python.py DIR CASE     prints what it saw, the same for each directory with the same tree"""
import hashlib
import io
import mmap
import multiprocessing
import os
import subprocess
import sys
import threading


def digest(data):
    return hashlib.sha256(data).hexdigest()[:12]


def files(root):
    return sorted(os.path.join(where, name) for where, _, names in os.walk(root) for name in names)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def case_walk(root):
    for where, dirs, names in sorted(os.walk(root)):
        print(os.path.relpath(where, root), sorted(dirs), sorted(names))
    with os.scandir(root) as entries:
        for e in sorted(entries, key=lambda e: e.name):
            st = e.stat(follow_symlinks=False)
            print(e.name, e.is_dir(), e.is_file(), e.is_symlink(), oct(st.st_mode), st.st_size if e.is_file() else "",
                  st.st_mtime_ns)
    fd = os.open(root, os.O_RDONLY)
    print(sorted(os.listdir(fd)), sorted(e.name for e in os.scandir(fd)))
    print("\n".join(sorted(f"{os.path.relpath(where, root)} {name} {os.stat(name, dir_fd=at, follow_symlinks=False).st_size}"
                           for where, dirs, names, at in os.fwalk(root) for name in names)))
    os.close(fd)


def case_read(root):
    for path in files(root):
        if not os.path.exists(path):
            print(os.path.relpath(path, root), os.readlink(path))
            continue
        with open(path, "rb") as f:
            print(os.path.relpath(path, root), os.fstat(f.fileno()).st_size, digest(f.read()))
            f.seek(-min(100, f.tell()), io.SEEK_END)
            print(digest(f.read()), f.tell())
        with open(path, "rb", buffering=0) as f:
            part = bytearray(1000)
            print(f.readinto(part), digest(part), f.seekable(), f.isatty(), f.fileno() > 2)
        with open(path, encoding="latin-1") as f:
            print(sum(len(line) for line in f))


def case_mmap(root):
    for path in files(root):
        if os.path.exists(path) and os.path.getsize(path):
            with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as m:
                f.seek(3)
                print(digest(m), m[-1], f.tell(), os.fstat(f.fileno()).st_size)
            print(digest(m) if not m.closed else "closed")


def case_numpy(root):
    import numpy
    for path in files(root):
        if not os.path.exists(path):
            continue
        if path.endswith(".npy"):
            print(digest(numpy.load(path).tobytes()), digest(numpy.load(path, mmap_mode="r").tobytes()))
        if path.endswith(".npz"):
            print(sorted((k, digest(v.tobytes())) for k, v in numpy.load(path).items()))
        print(digest(numpy.fromfile(path, numpy.uint8).tobytes()))
        with open(path, "rb") as f:
            f.seek(min(1, os.path.getsize(path)))
            print(digest(numpy.fromfile(f, numpy.uint8).tobytes()), f.tell())
        if os.path.getsize(path):
            print(digest(numpy.memmap(path, numpy.uint8, "r").tobytes()))


def load(path):
    return digest(read(path)) if os.path.exists(path) else "dangling"


def case_processes(root):
    paths = files(root)
    for method in "fork", "spawn", "forkserver":
        with multiprocessing.get_context(method).Pool(3) as pool:
            print(method, pool.map(load, paths))
    with open(paths[0], "rb") as f: # the child has this descriptor: its offset is shared
        f.read(1)
        os.lseek(f.fileno(), 2, os.SEEK_SET)
        print(subprocess.run(["sha256sum"], stdin=f, capture_output=True, check=True).stdout, os.lseek(f.fileno(), 0, os.SEEK_CUR))
    fd = os.open(paths[0], os.O_RDONLY)
    os.set_inheritable(fd, True)
    for close_fds, preexec in (False, None), (True, None), (True, int):
        os.lseek(fd, 1, os.SEEK_SET)
        print(subprocess.run([sys.executable, "-c", f"import os; print(hash(os.read({fd}, 99)), os.fstat({fd}).st_size)"],
                             env=os.environ | {"PYTHONHASHSEED": "1"}, pass_fds=[fd] if close_fds else [], close_fds=close_fds,
                             preexec_fn=preexec, capture_output=True, check=True).stdout)
    os.close(fd)
    print(subprocess.run(["sha256sum", *[p for p in paths if os.path.exists(p)][:5]], cwd="/", capture_output=True, check=True).stdout.split()[::2])
    with open(paths[0], "rb") as f: # served, and a child that closes all it has
        subprocess.run(["true"], close_fds=True, check=True)
        print(digest(f.read()))


def case_threads(root):
    paths, seen = files(root), {}

    def run(number):
        seen[number] = [load(p) for p in paths for _ in range(5)]

    threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(all(seen[i] == seen[0] for i in range(8)), len(seen), digest(repr(seen[0]).encode()))


def case_across(root):
    """One thread opens, another one reads."""
    names = sorted(n for n in os.listdir(root) if n.startswith("size-"))
    fd, entries = os.open(root, os.O_RDONLY), os.scandir(root)
    opened = [open(os.path.join(root, n), "rb", buffering=0) for n in names]
    for f in opened:
        f.read(3)

    def run():
        print(sorted(e.name for e in entries), sorted(os.listdir(fd)))
        for n, f in zip(names, opened):
            print(n, os.stat(n, dir_fd=fd).st_size, digest(f.read()), f.tell(), os.fstat(f.fileno()).st_size)

    for _ in range(2):
        t = threading.Thread(target=run)
        t.start()
        t.join()
    for _ in range(60): # each has a session, which the next one takes over
        t = threading.Thread(target=load, args=(opened[0].name,))
        t.start()
        t.join()
    print(len(opened))


def case_busy(root):
    """Reads all until a file exists, in some processes; every byte must be as at first."""
    wanted = {p: load(p) for p in files(sys.argv[3])}

    def run():
        turns = 0
        while turns <= 10 or not os.path.exists(sys.argv[4]):  # a busy machine reads some, too
            for p, sum in wanted.items():
                path = root + p[len(sys.argv[3]):]
                got = load(path)
                if got != sum:
                    print("wrong bytes:", path)
                if os.path.exists(path) and (os.stat(path).st_size != os.stat(p).st_size or
                                             sorted(os.listdir(os.path.dirname(path))) != sorted(os.listdir(os.path.dirname(p)))):
                    print("wrong names or attributes:", path)
                turns += 1
                if turns > 10 and os.path.exists(sys.argv[4]):
                    break
        sys.exit(0)

    processes = [multiprocessing.get_context("fork").Process(target=run) for _ in range(int(sys.argv[5]))]
    for p in processes:
        p.start()
    for p in processes:
        p.join()
    sys.exit(any(p.exitcode for p in processes))


def case_torch(root):
    import torch
    import torch.utils.data
    from PIL import Image

    # As torchvision's ImageFolder: classes by os.scandir(), samples by os.walk(), PIL over an open file.
    class Folder(torch.utils.data.Dataset):
        def __init__(self):
            classes = sorted(e.name for e in os.scandir(root) if e.is_dir())
            self.samples = [(os.path.join(where, name), label) for label, c in enumerate(classes)
                            for where, _, names in sorted(os.walk(os.path.join(root, c), followlinks=True))
                            for name in sorted(names)]

        def __len__(self):
            return len(self.samples)

        def __getitem__(self, i):
            path, label = self.samples[i]
            with open(path, "rb") as f:
                image = Image.open(f).convert("RGB")
            return torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8), label

    for workers in 0, 2:
        hashed = hashlib.sha256()
        for data, labels in torch.utils.data.DataLoader(Folder(), batch_size=8, num_workers=workers, shuffle=True,
                                                        generator=torch.Generator().manual_seed(3)):
            hashed.update(data.numpy().tobytes() + labels.numpy().tobytes())
        print(workers, len(Folder()), hashed.hexdigest()[:12])
    saved = os.path.join(root, "..", "saved.pt")
    print({k: v.sum().item() for k, v in torch.load(saved).items()})


if __name__ == "__main__":
    globals()["case_" + sys.argv[2]](sys.argv[1])

# SPDX-License-Identifier: BSD-2-Clause-Patent
"""An fsspec file system, weka://, so that pandas, numpy, h5py or torch.load open files.

    fsspec.open("weka:///data/a.csv", addresses="shm:/run/weka.sock", key_file="/etc/weka/key")

Without addresses and key_file, WEKA_ADDRESS and WEKA_KEY_FILE say where the appliance is.
cat() of many files, cat_ranges(), pipe() of a dict and ls() ask for many at once.

A file that is written appears under its name when it is closed, whole.  Until then it lies beside
it as ".NAME.part-RANDOM", if it is larger than one block; a process that dies may leave that behind.
"""

import errno
import os
import secrets
import stat

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem
from fsspec.utils import stringify_path

import weka

__all__ = ["WekaFile", "WekaFileSystem"]

RANGES_MAX = 1024  # of one batch
BYTES_MAX = 8 << 20  # of one batch, as far as they are known before
_TOO_MANY = {errno.EAGAIN, errno.EMSGSIZE}  # for the pool: read one by one
_KINDS = {stat.S_IFDIR: "directory", stat.S_IFREG: "file", stat.S_IFLNK: "link"}


def _about(name, s):
    """What fsspec wants to know of a file."""
    return {
        "name": name,
        "size": s.st_size,
        "type": _KINDS.get(stat.S_IFMT(s.st_mode), "other"),
        "mode": s.st_mode,
        "ino": s.st_ino,
        "uid": s.st_uid,
        "gid": s.st_gid,
        "nlink": s.st_nlink,
        "mtime": s.st_mtime_ns / 1e9,
    }


class WekaFileSystem(AbstractFileSystem):
    """Files of an appliance.  One instance serves all threads, and children of a fork."""

    protocol = "weka"
    root_marker = "/"

    def __init__(self, addresses=None, key_file=None, key_id=None, **kwargs):
        super().__init__(**kwargs)
        self.client = weka.Client(addresses, key_file=key_file, key_id=key_id)

    @classmethod
    def _strip_protocol(cls, path):
        if isinstance(path, list):
            return [cls._strip_protocol(p) for p in path]
        path = stringify_path(path)
        if path.startswith("weka://"):
            path = path[len("weka://"):]
        return "/" + path.strip("/")

    # ---- names

    def info(self, path, **kwargs):
        path = self._strip_protocol(path)
        return _about(path, self.client.stat(path))

    def exists(self, path, **kwargs):
        try:
            self.info(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def ls(self, path, detail=True, **kwargs):
        path = self._strip_protocol(path)
        try:
            found = self.client.scandir(path)
        except NotADirectoryError:
            return [self.info(path)] if detail else [path]
        above = path if path.endswith("/") else path + "/"
        if not detail:
            return sorted(above + name for name, _ in found)
        entries = sorted((_about(above + name, s) for name, s in found), key=lambda e: e["name"])
        links = [e for e in entries if e["type"] == "link"]
        for entry, s in zip(links, self.client.stat_batch([e["name"] for e in links], return_exceptions=True)):
            if not isinstance(s, OSError):  # what it leads to; a link that leads nowhere stays a link
                entry.update(_about(entry["name"], s), islink=True)
        return entries

    def mkdir(self, path, create_parents=True, **kwargs):
        path = self._strip_protocol(path)
        if create_parents:
            self.makedirs(self._parent(path), exist_ok=True)
        self.client.mkdir(path)

    def makedirs(self, path, exist_ok=False):
        path = self._strip_protocol(path)
        made = ""
        for name in path.strip("/").split("/"):
            made += "/" + name
            try:
                self.client.mkdir(made)
            except FileExistsError:
                if made == path and not (exist_ok and self.isdir(path)):
                    raise

    def rmdir(self, path):
        path = self._strip_protocol(path)
        if not self.isdir(path):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        self.client.remove(path)

    def _rm(self, path):
        self.client.remove_batch([self._strip_protocol(path)])

    def rm(self, path, recursive=False, maxdepth=None):
        paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
        paths = self.expand_path(paths) if any(map(_is_pattern, paths)) else self._strip_protocol(paths)
        if recursive and maxdepth is None:
            dirs = [p for p in paths if stat.S_ISDIR(self.client.stat(p, follow_symlinks=False).st_mode)]
            for p in dirs:
                self.client.rmtree(p)
            paths = [p for p in paths if p not in dirs]
        elif recursive:
            return super().rm(path, recursive=recursive, maxdepth=maxdepth)
        self.client.remove_batch(paths)

    def mv(self, path1, path2, recursive=False, maxdepth=None, **kwargs):
        self.client.rename(self._strip_protocol(path1), self._strip_protocol(path2))

    def cp_file(self, path1, path2, **kwargs):
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(path1):
            return self.makedirs(path2, exist_ok=True)
        with self.open(path1) as source, self.open(path2, "wb") as target:
            while data := source.read(BYTES_MAX):
                target.write(data)

    def modified(self, path):
        import datetime

        return datetime.datetime.fromtimestamp(self.info(path)["mtime"], datetime.timezone.utc)

    def touch(self, path, truncate=True, **kwargs):
        path = self._strip_protocol(path)
        if truncate:
            self.client.put(path, b"")
        else:
            self.client.write(path, b"")

    # ---- many at once

    def cat_file(self, path, start=None, end=None, **kwargs):
        (data,) = self.cat_ranges([path], [start], [end], on_error="raise")
        return data

    def cat(self, path, recursive=False, on_error="raise", **kwargs):
        many = isinstance(path, (list, tuple))
        if recursive or any(map(_is_pattern, path if many else [path])):
            paths, many = self.expand_path(path, recursive=recursive), True
            about = self.client.stat_batch(paths, return_exceptions=True)
            paths = [p for p, s in zip(paths, about) if isinstance(s, OSError) or not stat.S_ISDIR(s.st_mode)]
        else:
            paths = self._strip_protocol(list(path) if many else [path])
        got = self.cat_ranges(paths, None, None, on_error="raise" if on_error == "raise" else "return")
        if not many:
            return got[0]
        return {p: d for p, d in zip(paths, got) if on_error != "omit" or not isinstance(d, Exception)}

    def cat_ranges(self, paths, starts, ends, max_gap=None, on_error="return", **kwargs):
        """Bytes [start, end) of each path; None: from its begin, to its end; below 0: from its end.

        max_gap is for stores where a request is dear, and is not needed here.
        """
        paths = self._strip_protocol(list(paths))
        starts = list(starts) if isinstance(starts, (list, tuple)) else [starts] * len(paths)
        ends = list(ends) if isinstance(ends, (list, tuple)) else [ends] * len(paths)
        if not len(paths) == len(starts) == len(ends):
            raise ValueError("cat_ranges: as many starts and ends as paths")
        out = [None] * len(paths)
        self._from_the_end(paths, starts, ends, out)
        wanted = []
        for i, (start, end) in enumerate(zip(starts, ends)):
            if out[i] is None and end is not None and end <= (start or 0):
                out[i] = b""
            elif out[i] is None:
                wanted.append(i)
        for some in _groups(wanted, starts, ends):
            self._read(some, paths, starts, ends, out)
        if on_error == "raise":
            for result in out:
                if isinstance(result, Exception):
                    raise result
        return out

    def _from_the_end(self, paths, starts, ends, out):
        """Makes what is below 0 count from the begin."""
        which = [i for i in range(len(paths)) if (starts[i] or 0) < 0 or (ends[i] or 0) < 0]
        for i, s in zip(which, self.client.stat_batch([paths[i] for i in which], return_exceptions=True)):
            if isinstance(s, OSError):
                out[i] = s
                continue
            starts[i], ends[i] = (at if at is None or at >= 0 else max(at + s.st_size, 0) for at in (starts[i], ends[i]))

    def _read(self, some, paths, starts, ends, out):
        offsets = [starts[i] or 0 for i in some]
        lengths = [None if ends[i] is None else ends[i] - (starts[i] or 0) for i in some]
        left = range(len(some))
        try:
            with self.client.read_batch([paths[i] for i in some], offsets, lengths) as batch:
                errors = batch.errors()
                for n, i in enumerate(some):
                    out[i] = errors.get(n) or bytes(batch[n])
                left = [n for n, error in errors.items() if error.errno in _TOO_MANY]
        except BlockingIOError:  # the application's own batches have the pool
            pass
        for n in left:
            try:
                out[some[n]] = self.client.read(paths[some[n]], offsets[n], lengths[n])
            except OSError as e:
                out[some[n]] = e

    def pipe_file(self, path, value, **kwargs):
        self.client.put(self._strip_protocol(path), value)

    def pipe(self, path, value=None, **kwargs):
        if isinstance(path, dict):
            self.client.put_batch([(self._strip_protocol(p), v) for p, v in path.items()])
        else:
            self.pipe_file(path, value)

    # ---- one file

    def _open(self, path, mode="rb", block_size=None, autocommit=True, cache_options=None, **kwargs):
        return WekaFile(self, path, mode, block_size, autocommit, cache_options=cache_options, **kwargs)


class WekaFile(AbstractBufferedFile):
    """A file that is read, with read-ahead, or written anew."""

    def __init__(self, fs, path, mode="rb", block_size=None, autocommit=True, **kwargs):
        if mode == "ab":
            raise NotImplementedError("weka:// has no append mode: Client.write() changes a part of a file")
        self.part = None
        super().__init__(fs, path, mode, block_size, autocommit, **kwargs)

    def _fetch_range(self, start, end):
        return self.fs.client.read(self.path, start, end - start) if end > start else b""

    def _initiate_upload(self):
        above, _, name = self.path.rpartition("/")
        # A name of any length becomes one that may be.
        self.part = "%s/.%s.part-%s" % (above, name[:100], secrets.token_hex(8))

    def _upload_chunk(self, final=False):
        data = self.buffer.getbuffer()
        if final and self.autocommit and self.offset == 0:
            self.fs.client.put(self.path, data)
            self.part = None
            return True
        self.fs.client.write(self.part, data, self.offset)
        if final and self.autocommit:
            self.commit()
        return True

    def __exit__(self, kind, value, trace):
        if kind is None or not self.writable():
            return self.close()
        self.closed = True  # what was written so far is not the file
        self.discard()

    def commit(self):
        """Gives the file its name."""
        if self.part:
            self.fs.client.rename(self.part, self.path)
            self.part = None

    def discard(self):
        """The file will not be."""
        if self.part:
            self.fs.client.remove(self.part)
            self.part = None


def _is_pattern(path):
    return any(c in stringify_path(path) for c in "*?[")


def _groups(wanted, starts, ends):
    """Cuts into what one batch may hold."""
    group, size = [], 0
    for i in wanted:
        length = 0 if ends[i] is None else ends[i] - (starts[i] or 0)
        if group and (len(group) == RANGES_MAX or size + length > BYTES_MAX):
            yield group
            group, size = [], 0
        group.append(i)
        size += length
    if group:
        yield group

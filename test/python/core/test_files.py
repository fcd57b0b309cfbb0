# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Files and names, over each transport."""
import errno
import os
import pathlib
import stat

import pytest

from conftest import ADDRESSES, KEY, connect, content
import weka


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 131072, 131073, 4194304, 4194305, 9000001])
def test_what_was_put_comes_back(client, top, size):
    data = content(size, size)
    client.put(top + "/f", data)
    assert client.read(top + "/f") == data
    assert client.stat(top + "/f").st_size == size


def test_ranges(client, top):
    data = os.urandom(3000000)
    client.put(top + "/f", data)
    for offset, length in [(0, 1), (4095, 2), (4096, 4096), (100, 200000), (2999999, 5), (3000000, 7),
                           (5000000, 1), (1, None), (1048575, 1048578), (2500000, 2**62), (10, 0)]:
        end = None if length is None else offset + length
        assert client.read(top + "/f", offset, length) == data[offset:end], (offset, length)


def test_readinto(client, top):
    data = os.urandom(2500000)
    client.put(top + "/f", data)
    whole = bytearray(2500010)
    assert client.readinto(top + "/f", whole) == 2500000
    assert whole[:2500000] == data and whole[2500000:] == bytes(10)
    part = memoryview(whole)[5:105]
    assert client.readinto(top + "/f", part, offset=1000) == 100
    assert part == data[1000:1100]
    assert client.readinto(top + "/f", bytearray(8), 2500000) == 0
    with pytest.raises((TypeError, BufferError)):
        client.readinto(top + "/f", bytes(8))


def test_write_and_truncate(client, top):
    assert client.write(top + "/f", b"abc", 5) == 3
    assert client.read(top + "/f") == bytes(5) + b"abc"
    assert client.write(top + "/f", b"xy") == 2
    assert client.read(top + "/f") == b"xy" + bytes(3) + b"abc"
    client.truncate(top + "/f", 1)
    assert client.read(top + "/f") == b"x"
    data = os.urandom(2300000)
    assert client.write(top + "/f", memoryview(data), 1) == len(data)
    assert client.read(top + "/f") == b"x" + data


def test_put_replaces_and_may_refuse_to(client, top):
    client.put(top + "/f", b"old", mode=0o600)
    client.put(top + "/f", bytearray(b"new"))
    assert client.read(top + "/f") == b"new"
    for size in (1, 5000000):
        with pytest.raises(FileExistsError) as e:
            client.put(top + "/f", bytes(size), exclusive=True)
        assert e.value.filename == top + "/f"
    client.put(top + "/g", b"", mode=0o640)
    assert stat.S_IMODE(client.stat(top + "/g").st_mode) == 0o640


def test_names(client, top):
    client.mkdir(top + "/d")
    client.mkdir(top + "/d/e", 0o700)
    with pytest.raises(FileExistsError):
        client.mkdir(top + "/d")
    client.put(top + "/d/f", b"f")
    assert sorted(client.listdir(top + "/d")) == ["e", "f"]
    entries = dict(client.scandir(top + "/d"))
    assert stat.S_ISDIR(entries["e"].st_mode) and entries["f"].st_size == 1
    assert stat.S_IMODE(entries["e"].st_mode) == 0o700
    client.rename(top + "/d/f", top + "/d/g")
    client.put(top + "/d/h", b"h")
    with pytest.raises(FileExistsError):
        client.rename(top + "/d/h", top + "/d/g", replace=False)
    client.rename(top + "/d/h", top + "/d/g")
    assert client.read(top + "/d/g") == b"h"
    with pytest.raises(OSError) as e:
        client.remove(top + "/d")
    assert e.value.errno == errno.ENOTEMPTY
    client.remove(top + "/d/g")
    client.remove(top + "/d/e")
    assert client.listdir(top + "/d") == []
    client.put(top + "/d/again", b"")
    client.rmtree(top + "/d")
    with pytest.raises(FileNotFoundError):
        client.stat(top + "/d")


def test_many_names(client, top):
    client.mkdir(top + "/d")
    client.put_batch([("%s/d/%d" % (top, n), b"") for n in range(3000)])
    assert sorted(client.listdir(top + "/d"), key=int) == [str(n) for n in range(3000)]
    stats = client.stat_batch(["%s/d/%d" % (top, n) for n in range(700)])
    assert len(stats) == 700 and all(s.st_size == 0 for s in stats)


def test_errors_say_which_file(client, top):
    client.put(top + "/f", b"")
    cases = [
        (FileNotFoundError, errno.ENOENT, "/none", lambda p: client.read(p)),
        (FileNotFoundError, errno.ENOENT, "/none", lambda p: client.stat(p)),
        (FileNotFoundError, errno.ENOENT, "/none", lambda p: client.remove(p)),
        (FileNotFoundError, errno.ENOENT, "/none", lambda p: client.listdir(p)),
        (FileNotFoundError, errno.ENOENT, "/none", lambda p: client.rename(p, p + "x")),
        (FileNotFoundError, errno.ENOENT, "/none", lambda p: client.readinto(p, bytearray(1))),
        (FileNotFoundError, errno.ENOENT, "/none/f", lambda p: client.put(p, b"")),
        (FileNotFoundError, errno.ENOENT, "/none/f", lambda p: client.put(p, bytes(5000000))),
        (NotADirectoryError, errno.ENOTDIR, "/f", lambda p: client.listdir(p)),
        (NotADirectoryError, errno.ENOTDIR, "/f/g", lambda p: client.stat(p)),
        (IsADirectoryError, errno.EISDIR, "", lambda p: client.read(p)),
        (IsADirectoryError, errno.EISDIR, "", lambda p: client.readinto(p, bytearray(1))),
        (OSError, errno.ENAMETOOLONG, "/" + "n" * 300, lambda p: client.put(p, b"")),
        (OSError, errno.ENAMETOOLONG, "/" + "n/" * 3000, lambda p: client.read(p)),
    ]
    for kind, number, name, call in cases:
        with pytest.raises(kind) as e:
            call(top + name)
        assert (e.value.errno, e.value.filename) == (number, top + name)
        assert e.value.strerror


def test_paths_are_str_bytes_or_pathlike(client, top):
    client.put(pathlib.PurePosixPath(top) / "p", b"1")
    assert client.read(os.fsencode(top) + b"/p") == b"1"
    assert client.listdir(os.fsencode(top)) == [b"p"]
    client.put(top + "/Zürich ☃", b"2")
    assert client.read((top + "/Zürich ☃").encode()) == b"2"
    odd = os.fsencode(top) + b"/not \xff utf-8"
    client.put(odd, b"3")
    name = os.fsdecode(odd)
    assert client.read(name) == b"3"
    assert bytes(client.read_batch([name])[0]) == b"3"
    assert client.read_batch([odd])[0].path == name
    assert os.path.basename(name) in client.listdir(top)
    with pytest.raises(FileNotFoundError) as e:
        client.read(name + "x")
    assert e.value.filename == name + "x"


def test_a_name_that_is_no_text_in_a_line_of_the_library():
    with pytest.raises(OSError) as e:
        weka.Client("shm:/none-\u2603/sock", key=bytes(32))
    assert e.value.errno == errno.ENOENT
    with pytest.raises(OSError):
        weka.Client("shm:/none", key_file=b"/none-\xff")


def test_results_of_many(client, top):
    client.put(top + "/f", b"f")
    items = [(top + "/a", b"a"), (top + "/none/b", b"b"), (top + "/c", b"c" * 5000000), (top + "/f", b"F")]
    with pytest.raises(FileNotFoundError) as e:
        client.put_batch(items)
    assert e.value.filename == top + "/none/b"
    assert client.read(top + "/f") == b"F", "the others were written all the same"
    results = client.put_batch(items, exclusive=True, return_exceptions=True)
    assert [type(r) for r in results] == [FileExistsError, FileNotFoundError, FileExistsError, FileExistsError]
    stats = client.stat_batch([top + "/a", top + "/x", top + "/c"], return_exceptions=True)
    assert stats[0].st_size == 1 and isinstance(stats[1], FileNotFoundError) and stats[2].st_size == 5000000
    gone = client.remove_batch([top + "/a", top + "/x", top + "/c"], return_exceptions=True)
    assert gone[0] is None and gone[1].filename == top + "/x" and gone[2] is None
    assert client.listdir(top) == ["f"]
    assert client.put_batch([]) == client.stat_batch([]) == client.remove_batch([]) == []


def test_stat_is_a_tuple_with_names(shm, top):
    s = shm.stat(top)
    assert isinstance(s, weka.Stat) and isinstance(s, tuple)
    assert stat.S_ISDIR(s.st_mode) and s[0] == s.st_mode and len(s.handle) == 16
    assert s.st_mtime_ns > 10**18


def test_connecting(top):
    assert connect("shm").info()["transport"] == "shm"
    assert connect("tcp").info()["transport"] == "tcp"
    assert connect("tls").info()["address"].startswith("tls://")
    both = weka.Client(ADDRESSES["shm"] + "," + ADDRESSES["tcp"], key_file=KEY)
    assert both.info()["transport"] == "shm"
    secret = bytes.fromhex(open(KEY).read().strip().split(":")[-1])
    assert weka.Client(ADDRESSES["tcp"], key=secret).listdir("/") is not None
    with pytest.raises(PermissionError) as e:
        weka.Client(ADDRESSES["tcp"], key=bytes(32))
    assert e.value.filename == ADDRESSES["tcp"]
    with pytest.raises(ConnectionRefusedError):
        weka.Client("tcp://127.0.0.1:1", key=bytes(32))
    with pytest.raises(OSError) as e:
        weka.Client("nonsense", key=bytes(32))
    assert e.value.errno == errno.EINVAL


def test_a_small_pool(top):
    with connect("tcp", pool_bytes=2 << 20) as c:
        data = os.urandom(3000000)
        c.put(top + "/f", data[:1000000])
        assert c.read(top + "/f") == data[:1000000]
        with pytest.raises(OSError) as e:
            c.put(top + "/f", data)
        assert e.value.errno in (errno.EMSGSIZE, errno.EAGAIN) and "pool" in str(e.value)
        assert c.info()["pool_used_bytes"] == 0

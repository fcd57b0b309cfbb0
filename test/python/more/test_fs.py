# SPDX-License-Identifier: BSD-2-Clause-Patent
"""weka.fs: fsspec's weka://."""
import io
import pickle
import random

import numpy
import pytest

from conftest import ADDRESSES, KEY, content, run_python

fsspec = pytest.importorskip("fsspec", reason="no fsspec")


@pytest.fixture
def fs(client):
    return fsspec.filesystem("weka", addresses=client.addresses, key_file=KEY)


def test_a_url_opens(client, top):
    options = {"addresses": client.addresses, "key_file": KEY}
    with fsspec.open("weka://" + top + "/f.txt", "w", **options) as f:
        f.write("Zürich\n")
    with fsspec.open("weka://" + top + "/f.txt", "r", **options) as f:
        assert f.read() == "Zürich\n"
    assert client.read(top + "/f.txt") == "Zürich\n".encode()


def test_the_environment_says_where():
    code = "import fsspec; print(fsspec.filesystem('weka').client.info()['transport'])"
    assert run_python(code).stdout == "shm\n"


def test_files_of_every_size(fs, top):
    for size in (0, 1, 5000000, 5 << 20, 12345678):
        data = content(7, size)
        with fs.open(top + "/f", "wb") as f:
            for at in range(0, size, 999999):
                f.write(data[at:at + 999999])
        assert fs.cat_file(top + "/f") == data and fs.size(top + "/f") == size
        with fs.open(top + "/f") as f:
            assert f.read() == data and f.read() == b""
            f.seek(-min(size, 10), 2)
            assert f.read() == data[-10:] if size >= 10 else True
        assert fs.ls(top, detail=False) == [top + "/f"], "nothing is left beside it"


def test_a_file_appears_when_it_is_closed(fs, top):
    f = fs.open(top + "/f", "wb", block_size=1 << 20)
    f.write(bytes(3 << 20))
    assert not fs.exists(top + "/f")
    f.close()
    assert fs.size(top + "/f") == 3 << 20
    f = fs.open(top + "/g", "wb", block_size=1 << 20, autocommit=False)
    f.write(bytes(3 << 20))
    f.close()
    f.discard()
    assert fs.ls(top, detail=False) == [top + "/f"]
    with fs.transaction:
        with fs.open(top + "/h", "wb") as f:
            f.write(b"h")
        assert not fs.exists(top + "/h")
    assert fs.cat(top + "/h") == b"h"
    for size in (1, 3 << 20):
        with pytest.raises(ZeroDivisionError):
            with fs.open(top + "/i", "wb", block_size=1 << 20) as f:
                f.write(bytes(size))
                1 / 0
        assert not fs.exists(top + "/i") and sorted(fs.ls(top, detail=False)) == [top + "/f", top + "/h"]
    with pytest.raises(NotImplementedError):
        fs.open(top + "/f", "ab")
    with pytest.raises(FileNotFoundError):
        fs.open(top + "/none/f", "wb").close()


def test_cat_of_many_is_one_batch(fs, files, client):
    paths = list(files)
    before = fs.client.info()["completed"]
    got = fs.cat(paths[:300])
    assert got == {p: files[p] for p in paths[:300]}
    assert fs.client.info()["completed"] - before <= 30
    assert fs.cat(paths[5]) == files[paths[5]] == fs.cat("weka://" + paths[5])
    assert fs.cat("/files/f59?") == {p: files[p] for p in paths if p[:-1] == "/files/f59"}
    missing = fs.cat([paths[0], "/none"], on_error="return")
    assert isinstance(missing["/none"], FileNotFoundError) and missing[paths[0]] == files[paths[0]]
    assert list(fs.cat([paths[0], "/none"], on_error="omit")) == [paths[0]]
    with pytest.raises(FileNotFoundError):
        fs.cat([paths[0], "/none"])


def test_cat_ranges(fs, files):
    chance = random.Random(3)
    paths = [chance.choice(list(files)) for _ in range(3000)]
    ends_of = [None, 0, -1, -100, 5, 20000]
    starts = [chance.choice([None, 0, 1, 100, 4096, -1, -300, 50000]) for _ in paths]
    ends = [chance.choice(ends_of) for _ in paths]
    for path, start, end, got in zip(paths, starts, ends, fs.cat_ranges(paths, list(starts), list(ends))):
        assert got == files[path][start:end], (path, start, end)
    assert fs.cat_ranges(paths[:2], 1, 3) == [files[p][1:3] for p in paths[:2]]
    assert isinstance(fs.cat_ranges(["/none", "/none"], [0, -5], [1, None])[1], FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges(["/none"], [0], [1], on_error="raise")
    with pytest.raises(ValueError):
        fs.cat_ranges(paths[:2], [1], [2])


def test_more_than_the_pool_holds(fs, top):
    data = content(3, 9 << 20)
    fs.pipe({"%s/%d" % (top, n): data for n in range(10)})
    got = fs.cat(["%s/%d" % (top, n) for n in range(10)])
    assert all(d == data for d in got.values()) and len(got) == 10


def test_names(fs, client, top):
    fs.makedirs(top + "/a/b/c")
    with pytest.raises(FileExistsError):
        fs.makedirs(top + "/a/b/c")
    fs.makedirs(top + "/a/b/c/", exist_ok=True)
    fs.mkdir(top + "/x/y")
    fs.touch(top + "/a/f")
    fs.pipe({top + "/a/g": b"g", top + "/a/b/h": b"hh"})
    fs.touch(top + "/a/g", truncate=False)
    assert [(e["name"], e["size"], e["type"]) for e in fs.ls(top + "/a") if e["type"] == "file"] == [
        (top + "/a/f", 0, "file"), (top + "/a/g", 1, "file")]
    assert fs.isdir(top + "/a/b") and fs.isfile(top + "/a/g") and not fs.exists(top + "/a/g/h")
    assert fs.find(top) == [top + "/a/b/h", top + "/a/f", top + "/a/g"]
    assert fs.glob(top + "/a/*") == [top + "/a/b", top + "/a/f", top + "/a/g"]
    assert fs.du(top) == 3
    fs.mv(top + "/a/g", top + "/a/i")
    fs.copy(top + "/a/i", top + "/a/j")
    assert fs.cat(top + "/a/j") == b"g" and not fs.exists(top + "/a/g")
    assert fs.cat(top + "/a", recursive=True) == {top + "/a/f": b"", top + "/a/i": b"g", top + "/a/j": b"g",
                                                 top + "/a/b/h": b"hh"}
    assert fs.modified(top + "/a/j").year >= 2024
    with pytest.raises(NotADirectoryError):
        fs.rmdir(top + "/a/j")
    fs.rm(top + "/a/j")
    fs.rm_file(top + "/a/i")
    fs.rm([top + "/a/f", top + "/a/b"], recursive=True)
    assert fs.find(top) == []
    fs.rmdir(top + "/a")
    with pytest.raises(FileNotFoundError):
        fs.ls(top + "/a")
    with pytest.raises(FileNotFoundError):
        fs.rm(top + "/none")


def test_get_and_put(fs, top, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d/f").write_bytes(content(1, 7000000))
    fs.put(str(tmp_path / "d"), top + "/up", recursive=True)
    fs.get(top + "/up", str(tmp_path / "back"), recursive=True)
    assert (tmp_path / "back/f").read_bytes() == content(1, 7000000)


def test_others_open_files_through_it(fs, top):
    array = numpy.arange(1000000).reshape(1000, 1000)
    with fs.open(top + "/a.npy", "wb") as f:
        numpy.save(f, array)
    with fs.open(top + "/a.npy") as f:
        assert (numpy.load(f) == array).all()
    mapper = fs.get_mapper(top + "/map")
    mapper["x/y"] = b"1"
    assert dict(mapper) == {"x/y": b"1"}
    assert io.TextIOWrapper(fs.open(top + "/a.npy"), "latin-1").read(6)[1:] == "NUMPY"


def test_pickle(fs, files):
    path = list(files)[3]
    assert pickle.loads(pickle.dumps(fs)).cat(path) == files[path]
    with fs.open(path) as f:
        assert pickle.loads(pickle.dumps(f)).read() == files[path]

# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Datasets: made, opened, asked, checked, dropped; from several threads and processes."""
import errno
import hashlib
import io
import os
import pickle
import tarfile
import threading

import numpy
import pytest

import weka
from conftest import content, pool_used, run_python


@pytest.fixture
def tree(maker, top):
    """Three classes, {path: bytes}, in the order of the dataset; the directory is `top`."""
    files = {"%s/%s/f%03d" % (top, name, n): content(n + 1) for name in ("bird", "cat", "dog") for n in range(40)}
    for name in ("bird", "cat", "dog"):
        maker.mkdir(top + "/" + name)
    maker.put_batch(list(files.items()))
    return files


@pytest.fixture
def name(maker, top):
    name = "d" + top.strip("/")
    yield name
    try:
        maker.drop_dataset(name, 0)
    except FileNotFoundError:
        pass


def test_what_it_is(client, tree, top, name):
    seen = []
    with client.create_dataset(name, top, progress=lambda done, total: seen.append((done, total))) as made:
        assert (made.name, made.version, len(made)) == (name, 1, 120)
        assert made.classes == ("bird", "cat", "dog")
        assert made.bytes == sum(map(len, tree.values())) and made.largest == max(map(len, tree.values()))
        assert not made.quick and len(made.content) == 64 and made.created_ns > 0
        assert seen[-1] == (120, 120) and seen == sorted(seen)
        for i, (path, data) in enumerate(tree.items()):
            assert made.sample(i) == (path, 0, len(data), i // 40)
        assert made.sample(5).path == list(tree)[5] and made.sample(119).label == 2
    assert made.closed
    assert client.dataset(name).content == client.dataset(name, 1).content == made.content
    assert made.content == content_hash(tree, top)


def content_hash(tree, top):
    """PROTOCOL.md 11, for a dataset with the classes bird, cat and dog."""
    h, classes = hashlib.sha256(), ["bird", "cat", "dog"]
    for path, data in tree.items():
        below = path[len(top) + 1:].encode()
        label = classes.index(below.split(b"/")[0].decode())
        for number in (below, len(data), label):
            h.update((len(number) if isinstance(number, bytes) else number).to_bytes(8, "little"))
            h.update(number if isinstance(number, bytes) else b"")
        h.update(hashlib.sha256(data).digest())
    h.update("".join(c + "\0" for c in classes).encode())
    return h.hexdigest()


def test_glob_labels_quick(client, tree, top, name):
    some = client.create_dataset(name, top, "cat/*1*")
    assert [some.sample(i).path for i in range(len(some))] == [p for p in tree if "/cat/" in p and "1" in p.split("/")[-1]]
    assert some.classes == ("cat",)
    plain = client.create_dataset(name, top, labels=False, quick=True)
    assert (plain.version, plain.classes, plain.quick) == (2, (), True)
    assert plain.sample(0).label == -1
    assert plain.verify() == (0, None)
    flat = client.create_dataset(name, top + "/dog")
    assert (flat.version, flat.classes, len(flat)) == (3, (), 40)
    client.drop_dataset(name, 2)
    with pytest.raises(FileNotFoundError):
        client.dataset(name, 2)
    assert client.dataset(name).version == 3


def test_verify(client, tree, top, name):
    d = client.create_dataset(name, top)
    seen = []
    assert d.verify(lambda *now: seen.append(now)) == (0, None) and seen[-1] == (120, 120)
    paths = list(tree)
    client.put(paths[7], b"other")
    client.remove(paths[90])
    assert d.verify() == (2, 7)


def test_errors(client, tree, top, name):
    for call, kind, number in [
            (lambda: client.dataset("none"), FileNotFoundError, errno.ENOENT),
            (lambda: client.create_dataset(name, top + "/none"), FileNotFoundError, errno.ENOENT),
            (lambda: client.create_dataset(name, top, "*.png"), OSError, errno.ENODATA),
            (lambda: client.drop_dataset("none", 0), FileNotFoundError, errno.ENOENT)]:
        with pytest.raises(kind) as e:
            call()
        assert e.value.errno == number and e.value.filename
    d = client.create_dataset(name, top)
    with pytest.raises(FileNotFoundError):
        client.dataset(name, 2)
    for call, kind in [
            (lambda: client.dataset(""), ValueError), (lambda: client.dataset("a/b"), ValueError),
            (lambda: client.dataset("." + name), ValueError), (lambda: client.dataset("x" * 101), ValueError),
            (lambda: client.dataset("a\0b"), ValueError), (lambda: client.dataset(None), TypeError),
            (lambda: client.dataset(name, -1), ValueError), (lambda: client.dataset(name, 2**40), OverflowError),
            (lambda: client.dataset(name, "1"), TypeError), (lambda: client.create_dataset("a b", top), ValueError),
            (lambda: client.create_dataset(name, top, progress=5), TypeError),
            (lambda: client.create_dataset(name, 5), TypeError), (lambda: client.create_dataset(name), TypeError),
            (lambda: client.create_dataset(name, top, glob=b"x\0y"), TypeError),
            (lambda: d.verify(5), TypeError), (lambda: client.drop_dataset(name), TypeError),
            (lambda: client.drop_dataset("../x", 0), ValueError),
            (lambda: d.sample(120), IndexError), (lambda: d.sample(-1), ValueError), (lambda: d.sample("1"), TypeError),
            (lambda: d.sample(2**70), OverflowError), (lambda: weka.Dataset(), TypeError),
            (lambda: setattr(d, "version", 2), AttributeError)]:
        with pytest.raises(kind):
            call()
    d.close()
    d.close()
    with pytest.raises(ValueError):
        d.sample(0)
    with pytest.raises(ValueError):
        d.verify()
    with pytest.raises(ValueError):
        d.stream(batch=1)
    assert len(d) == 120


def test_a_dataset_that_was_made_anew(shm, tree, top, name):
    d = shm.create_dataset(name, top)
    shm.drop_dataset(name, 0)
    assert shm.create_dataset(name, top, labels=False).version == 1
    assert d.sample(119).label == 2  # it is open here, and its list has not gone

    def elsewhere():
        with pytest.raises(OSError) as e:
            d.sample(0)
        wrong.append(e.value.errno)

    wrong = []
    t = threading.Thread(target=elsewhere)
    t.start()
    t.join()
    assert wrong == [errno.ESTALE]


def test_progress_that_fails(shm, tree, top, name):
    def fails(done, total):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        shm.create_dataset(name, top, progress=fails)
    with pytest.raises(ZeroDivisionError):
        shm.create_dataset(name, top).verify(fails)


def test_progress_that_uses_the_client(shm, tree, top, name):
    d = shm.create_dataset(name, top)
    seen = []

    def uses(done, total):
        seen.append(shm.read(list(tree)[3]))
        seen.append(bytes(shm.read_batch(list(tree)[:9])[8]))

    d.verify(uses)
    assert seen[:2] == [tree[list(tree)[3]], tree[list(tree)[8]]]


def test_threads(client, tree, top, name):
    d = client.create_dataset(name, top)
    seen = [None] * 6

    def look(n):
        seen[n] = [d.sample(i) for i in range(n, 120, 7)]

    threads = [threading.Thread(target=look, args=(n,)) for n in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert seen == [[d.sample(i) for i in range(n, 120, 7)] for n in range(6)]


def test_forks_and_pickles(client, tree, top, name):
    d = client.create_dataset(name, top)
    copy = pickle.loads(pickle.dumps(d))
    assert (copy.name, copy.version, copy.content) == (d.name, d.version, d.content)
    child = os.fork()
    if child == 0:
        try:
            right = d.sample(7) == copy.sample(7) and len(list(d.stream(batch=50))) == 3
            os._exit(17 if right else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
    assert d.sample(7).path == list(tree)[7]


def test_a_process_of_its_own(shm, tree, top, name):
    shm.create_dataset(name, top)
    code = """
import sys, weka
d = weka.Client().dataset(sys.argv[1])
print(len(d), d.content)
"""
    done = run_python(code, name)
    assert done.stdout.split() == ["120", shm.dataset(name).content], done.stderr


def test_its_client_is_closed(shm, tree, top, name):
    shm.create_dataset(name, top)
    c = pickle.loads(pickle.dumps(shm))
    d = c.dataset(name)
    c.close()
    with pytest.raises(ValueError):
        d.sample(0)
    with pytest.raises(ValueError):
        d.stream(batch=4)


def test_the_memory_comes_back(client, tree, top, name):
    for _ in range(3):
        client.create_dataset(name, top).verify()
    assert pool_used(client) == 0


def test_samples_by_number(client, tree, top, name):
    client.put(top + "/bird/empty", b"")
    client.put(top + "/dog/large", content(7, 5 << 20))
    tree = dict(sorted(dict(tree, **{top + "/bird/empty": b"", top + "/dog/large": content(7, 5 << 20)}).items()))
    paths = list(tree)
    d = client.create_dataset(name, top)
    wanted = [3, 121, 40, 3, 0, 119] + list(range(122))
    batch = d.read_batch(wanted)
    assert type(batch) is weka.SampleBatch and batch.step is None and batch.done
    assert list(batch.samples) == wanted and [bytes(i) for i in batch] == [tree[paths[n]] for n in wanted]
    assert list(batch.labels) == [d.sample(n).label for n in wanted]
    assert batch[1].path == paths[121] and batch.errors() == {}
    del batch
    for wrong, kind in [([122], IndexError), ([-1], ValueError), (["1"], TypeError), (5, TypeError), ("12", TypeError),
                        ([2**64], OverflowError)]:
        with pytest.raises(kind):
            d.read_batch(wrong)
    assert len(d.read_batch([])) == len(d.read_batch([]).samples) == 0
    client.put(paths[7], tree[paths[7]])  # the same bytes, but another file
    client.remove(paths[9])
    client.write(paths[0], b"x")
    batch = d.read_batch(range(11))
    assert {n: (e.errno, e.filename) for n, e in batch.errors().items()} == {
        n: (errno.ESTALE if n != 9 else errno.ENOENT, paths[n]) for n in (0, 7, 9)}
    assert bytes(batch[8]) == tree[paths[8]]
    with pytest.raises(OSError):
        batch[7]
    del batch
    d.close()
    with pytest.raises(ValueError):
        d.read_batch([0])


def test_records(client, top, name):
    for shard in range(3):
        with io.BytesIO() as file:
            with tarfile.open(fileobj=file, mode="w") as tar:
                for n in range(10):
                    for suffix, data in (("raw", content(n + 1)), ("cls", b"%d" % (shard * 10 + n))):
                        about = tarfile.TarInfo("a/%04d.%s" % (n, suffix))
                        about.size = len(data)
                        tar.addfile(about, io.BytesIO(data))
            client.put("%s/%d.tar" % (top, shard), file.getvalue())
    d = client.create_dataset(name, top, "*.tar", records="tar")
    assert len(d) == 30 and d.sample(12).path == top + "/1.tar" and d.sample(12).member.startswith("a/0002")

    def number(item):
        with tarfile.open(fileobj=io.BytesIO(item)) as tar:
            raw, cls = (tar.extractfile(m).read() for m in tar.getmembers())
        assert raw == content(int(cls) % 10 + 1)
        return int(cls)

    assert [number(item) for item in d.read_batch(range(30))] == list(range(30))
    for batch in d.stream(batch=7, seed=3):
        assert [number(item) for item in batch] == list(batch.samples) and batch[0].path.endswith(".tar")
    rows = numpy.arange(60, dtype="<i4").reshape(12, 5)
    with io.BytesIO() as file:
        numpy.save(file, rows)
        client.put(top + "/x.npy", file.getvalue())
    d = client.create_dataset(name, top, "*.npy", records="npy")
    assert [numpy.frombuffer(item, "<i4").tolist() for item in d.read_batch([11, 0, 5])] == rows[[11, 0, 5]].tolist()
    client.put(top + "/x.npy", b"x" * 1000)
    with pytest.raises(OSError) as e:
        next(d.stream(batch=4))[0]
    assert (e.value.errno, e.value.filename) == (errno.ESTALE, top + "/x.npy")
    del e
    for records, kind in (("npy", OSError), ("tar", OSError), ("png", ValueError), (5, TypeError)):
        with pytest.raises(kind):
            client.create_dataset(name, top, "*.npy", records=records)

# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Batches: items without a copy, and memory that goes back when the last view is gone."""
import errno
import gc
import hashlib
import random

import numpy
import pytest

from conftest import connect, content, pool_used
import weka


def test_every_item_is_its_file(client, files):
    paths = list(files)
    random.Random(1).shuffle(paths)
    batch = client.read_batch(paths)
    assert len(batch) == 600 and batch.done and not batch.released
    assert [bytes(item) for item in batch] == [files[p] for p in paths]
    assert [item.path for item in batch] == paths
    assert batch[-1].nbytes == len(batch[-1]) == len(files[paths[-1]])
    assert batch.errors() == {}


def test_larger_than_expected(client, top):
    made = [(top + "/%d" % n, content(n, 300000 + n)) for n in range(50)]
    client.put_batch(made)
    for _ in range(3):  # first with the wrong expectation
        batch = client.read_batch([p for p, _ in made])
        assert all(bytes(item) == data for item, (_, data) in zip(batch, made))
        del batch
    small = [(top + "/s%d" % n, b"s") for n in range(50)]
    client.put_batch(small)
    mixed = made[:20] + small + made[20:]
    batch = client.read_batch([p for p, _ in mixed])
    assert all(bytes(item) == data for item, (_, data) in zip(batch, mixed))


def test_large_files_do_not_make_requests_of_one_file(shm, top):
    shm.put_batch([(top + "/%d" % n, content(n, 3 << 20)) for n in range(4)])
    shm.put_batch([(top + "/s%d" % n, b"s") for n in range(200)])
    for _ in range(5):
        shm.read_batch([top + "/%d" % n for n in range(4)]).release()
    before = shm.info()["completed"]
    assert [bytes(i) for i in shm.read_batch([top + "/s%d" % n for n in range(200)])] == [b"s"] * 200
    assert shm.info()["completed"] - before == 1


def test_ranges(client, files):
    paths = list(files)[100:400]
    offsets = [n * 7 % 5000 if n % 3 else None for n in range(300)]
    lengths = [n * 31 % 9000 + 1 if n % 4 else None for n in range(300)]
    batch = client.read_batch(paths, offsets, lengths)
    for item, path, offset, length in zip(batch, paths, offsets, lengths):
        begin = offset or 0
        assert bytes(item) == files[path][begin:begin + length if length else None]


def test_one_missing_file_fails_alone(client, files, top):
    paths = list(files)[:10]
    paths[3] = top + "/none"
    paths[7] = top
    batch = client.read_batch(paths)
    assert bytes(batch[2]) == files[paths[2]]
    with pytest.raises(FileNotFoundError) as e:
        batch[3]
    assert (e.value.errno, e.value.filename) == (errno.ENOENT, top + "/none")
    errors = batch.errors()
    assert list(errors) == [3, 7] and isinstance(errors[7], IsADirectoryError)
    with pytest.raises(IndexError):
        batch[10]


def test_no_files(client):
    batch = client.read_batch([])
    assert len(batch) == 0 and list(batch) == [] and batch.errors() == {}


def test_several_in_flight(client, files):
    paths = list(files)
    batches = [client.submit_batch(paths[n:n + 50]) for n in range(0, 600, 50)]
    for n, batch in reversed(list(enumerate(batches))):
        assert batch.wait() is True and batch.wait(0) is True
        assert [bytes(i) for i in batch] == [files[p] for p in paths[n * 50:n * 50 + 50]]


def test_more_requests_than_may_be_in_flight(files):
    paths = list(files)
    with connect("tcp", requests_max=2, pool_bytes=32 << 20) as c:
        batches = [c.submit_batch(paths[n:n + 20]) for n in range(0, 600, 20)]
        for n, batch in enumerate(batches):
            assert bytes(batch[0]) == files[paths[n * 20]]
        del batches, batch
        assert pool_used(c) == 0


def test_views_keep_the_memory(client, files):
    paths = list(files)[300:310]
    batch = client.read_batch(paths)
    view = memoryview(batch[4])
    array = numpy.frombuffer(batch[5], numpy.uint8)
    tensor = numpy.from_dlpack(batch[6])
    assert client.info()["pool_used_bytes"] > 0
    with pytest.raises(BufferError):
        batch.release()
    del batch
    gc.collect()
    assert client.info()["pool_used_bytes"] > 0
    assert view == files[paths[4]] and view.nbytes == len(files[paths[4]])
    assert array.tobytes() == files[paths[5]] and tensor.tobytes() == files[paths[6]]
    del view, array
    assert client.info()["pool_used_bytes"] > 0
    del tensor
    assert pool_used(client) == 0


def test_views_are_not_copies(client, files):
    batch = client.read_batch(list(files)[400:402])
    array = numpy.frombuffer(batch[0], numpy.uint8)
    again = numpy.frombuffer(batch[0], numpy.uint8)
    tensor = numpy.from_dlpack(batch[0])
    assert array.ctypes.data == again.ctypes.data == tensor.ctypes.data
    array[0] ^= 255
    assert memoryview(batch[0])[0] == array[0] == tensor[0]


def test_release(client, files):
    paths = list(files)[:5]
    with client.read_batch(paths) as batch:
        item = batch[1]
        kept = bytes(item)
    assert batch.released and pool_used(client) == 0 and kept == files[paths[1]]
    for call in (lambda: batch[0], lambda: len(batch), lambda: bytes(item), lambda: len(item), lambda: item.path,
                 lambda: memoryview(item), batch.wait, batch.errors, lambda: batch.done, lambda: item.__dlpack__()):
        with pytest.raises(ValueError):
            call()
    batch.release()
    with pytest.raises(BufferError):
        with client.read_batch(paths) as batch:
            view = memoryview(batch[1])
    view.release()
    batch.release()
    assert pool_used(client) == 0


def test_a_batch_that_was_never_waited_for(client, files):
    for _ in range(30):
        client.submit_batch(list(files)[:200])
    assert pool_used(client) == 0


def test_batches_outlive_their_client(files):
    for kind in ("shm", "tcp"):
        c = connect(kind)
        whole = c.read_batch(list(files)[:100])
        pending = c.submit_batch(list(files)[100:200])
        view = memoryview(whole[50])
        c.close()
        c.close()
        assert c.closed
        assert view == files[list(files)[50]]
        assert [bytes(i) for i in pending] == [files[p] for p in list(files)[100:200]]
        for call in (lambda: c.read("/f"), c.info, lambda: c.read_batch([]), lambda: c.put_batch([])):
            with pytest.raises(ValueError):
                call()
        del c, whole, pending
        gc.collect()
        assert view == files[list(files)[50]]


def test_larger_than_the_leases(top):
    with connect("tcp", pool_bytes=8 << 20) as c:
        made = [(top + "/%d" % n, content(n, 1 << 20)) for n in range(20)]
        c.put_batch(made)
        batch = c.read_batch([p for p, _ in made])
        errors = batch.errors()
        assert 0 < len(errors) < 20, "some fit"
        assert {e.errno for e in errors.values()} <= {errno.EAGAIN, errno.EMSGSIZE}
        assert all("pool" in e.strerror and e.filename for e in errors.values())
        for n in set(range(20)) - set(errors):
            assert bytes(batch[n]) == made[n][1]
        held = [batch]
        with pytest.raises(BlockingIOError) as e:
            while True:
                held.append(c.submit_batch([p for p, _ in made]))
        assert "release" in str(e.value)
        held.clear()
        del batch
        assert pool_used(c) == 0
        assert bytes(c.read_batch([made[7][0]])[0]) == made[7][1]


def test_a_file_that_no_request_can_hold(top):
    with connect("tcp", pool_bytes=8 << 20) as c:
        c.write(top + "/large", b"end", 100 << 20)
        c.put(top + "/small", b"small")
        batch = c.read_batch([top + "/large", top + "/small"])
        with pytest.raises(OSError) as e:
            batch[0]
        assert e.value.errno == errno.EMSGSIZE and e.value.filename == top + "/large"
        assert bytes(batch[1]) == b"small"
        assert bytes(c.read_batch([top + "/large"], [100 << 20])[0]) == b"end"


def test_dlpack(client, files):
    paths = list(files)[200:202]
    batch = client.read_batch(paths)
    assert batch[0].__dlpack_device__() == (1, 0)
    capsule = batch[0].__dlpack__()
    assert "dltensor" in repr(capsule)
    with pytest.raises(BufferError):
        batch.release()
    del capsule  # nobody took it
    batch.release()
    batch = client.read_batch(paths)
    for wrong in ({"stream": 1}, {"dl_device": (2, 0)}, {"copy": True}):
        with pytest.raises(BufferError):
            batch[0].__dlpack__(**wrong)
    assert batch[0].__dlpack__(max_version=(1, 0), dl_device=(1, 0), copy=False)


def test_hashes_of_everything(client, files):
    batch = client.read_batch(list(files))
    for item, data in zip(batch, files.values()):
        assert hashlib.sha256(item).digest() == hashlib.sha256(data).digest()

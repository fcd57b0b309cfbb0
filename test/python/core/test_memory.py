# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Neither memory nor objects are left behind by calls that succeed, fail, or are given up."""
import ctypes
import gc
import sys

import pytest

from conftest import connect
import weka

TIMES = 150


class Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
                ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks",
                 "keepcost")]


def in_use():
    """Bytes of malloc(), and objects of Python."""
    gc.collect()
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Mallinfo
    info = mallinfo()
    return info.uordblks + info.hblkhd, sys.getallocatedblocks()


def fails(kind, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except kind:
        return
    raise AssertionError("no " + kind.__name__)


def calls(client, top, paths):
    none, data = top + "/none", bytearray(10)
    client.put(top + "/f", b"x")
    pair = (top + "/f", b"y")
    return {
        "batch": lambda: [memoryview(i) for i in client.read_batch(paths)],
        "tensor": lambda: client.read_batch(paths[:2])[1].__dlpack__(),
        "dropped": lambda: client.submit_batch(paths[:20]),
        "ranges": lambda: client.read_batch(paths[:9], range(9), [5] * 9),
        "read": lambda: client.read(paths[3]),
        "large": lambda: client.read(top + "/large"),
        "put": lambda: client.put(top + "/f", b"x"),
        "write": lambda: client.write(top + "/f", b"x", 3),
        "stat": lambda: client.stat(paths[3]),
        "names": lambda: client.scandir(top),
        "many": lambda: client.put_batch([pair] * 3),
        "stats": lambda: client.stat_batch(paths[:30] + [none], return_exceptions=True),
        "info": client.info,
        "no file": lambda: fails(OSError, client.read, none),
        "no files": lambda: client.read_batch([none] * 20).errors(),
        "no item": lambda: fails(OSError, lambda: client.read_batch([none])[0]),
        "no place": lambda: fails(OSError, client.put, none + "/f", b"x"),
        "no stat": lambda: fails(OSError, client.stat_batch, [paths[0], none]),
        "a NUL": lambda: fails(ValueError, client.read_batch, [paths[0], "a\0b"]),
        "a surrogate": lambda: fails(ValueError, client.read_batch, [paths[0], "\ud800"]),
        "two offsets": lambda: fails(ValueError, client.read_batch, paths, [1, 2]),
        "a text": lambda: fails(TypeError, client.read_batch, paths, None, ["1"] * len(paths)),
        "a triple": lambda: fails(TypeError, client.put_batch, [pair, ("a", b"b", 3)]),
        "no data": lambda: fails(TypeError, client.put_batch, [pair, ("a", 3)]),
        "negative": lambda: fails(ValueError, client.readinto, paths[0], data, -1),
        "a keyword": lambda: fails(TypeError, client.put, top + "/f", b"x", nonsense=1),
        "a path twice": lambda: fails(TypeError, client.rename, top + "/f", 5),
    }


def stops(*_):
    raise ZeroDivisionError


def epoch(dataset):
    for batch in dataset.stream(batch=10):
        errors = batch.errors()
        views = [memoryview(batch[i]) for i in range(len(batch)) if i not in errors]
    return batch.samples, batch.labels, views


def datasets(client, top):
    for name in ("a", "b"):
        client.mkdir(top + "/tree/" + name)
    client.put_batch([("%s/tree/%s/%d" % (top, name, n), b"x" * n) for name in "ab" for n in range(20)])
    d = client.create_dataset("memory" + top.strip("/"), top + "/tree", quick=True)
    cursor = d.stream(batch=1, seed=1).cursor()
    client.remove(top + "/tree/a/0")
    again = d.__reduce__()
    return {
        "an epoch": lambda: epoch(d),
        "half an epoch": lambda: next(d.stream(batch=10))[0].path,
        "no epoch": d.stream(batch=10).stats,
        "a cursor": lambda: next(d.stream(batch=10, seed=1, cursor=cursor)),
        "another cursor": lambda: fails(ValueError, d.stream, batch=10, seed=2, cursor=cursor),
        "no cursor": lambda: fails(ValueError, d.stream, batch=10, cursor=bytes(64)),
        "no batch": lambda: fails(ValueError, d.stream, batch=0),
        "a closed stream": lambda: d.stream(batch=3).close(),
        "a closed dataset": lambda: again[0](*again[1]).close(),
        "a stream of a closed dataset": lambda: next(again[0](*again[1]).stream(batch=7)).labels,
        "no dataset": lambda: fails(FileNotFoundError, client.dataset, "none"),
        "a wrong name": lambda: fails(ValueError, client.dataset, "a/b"),
        "a sample": lambda: d.sample(7),
        "no sample": lambda: fails(IndexError, d.sample, 40),
        "samples": lambda: list(d.read_batch(range(5, 30))),
        "no samples": lambda: fails(IndexError, d.read_batch, [1, 40]),
        "a sample that is gone": lambda: next(d.stream(batch=3, shuffle=False)).errors(),
        "a file that is gone": lambda: fails(OSError, lambda: d.read_batch([0])[0]),
        "verify": d.verify,
        "progress": lambda: fails(ZeroDivisionError, d.verify, stops),
        "no files": lambda: fails(OSError, client.create_dataset, "none", top + "/tree", "*.png"),
        "classes": lambda: (d.classes, d.content, d.name),
        "order": lambda: weka.order(100, 1, 1, 7),
    }


def test_nothing_is_left_behind(shm, files, top):
    shm.put(top + "/large", bytes(1500000))
    nothing_stays(calls(shm, top, list(files)[:50]))


def test_nothing_of_datasets_is_left_behind(shm, top):
    shm.mkdir(top + "/tree")
    nothing_stays(datasets(shm, top))
    shm.drop_dataset("memory" + top.strip("/"), 0)


def nothing_stays(these_calls):
    left = {}
    for name, call in these_calls.items():
        for _ in range(30):
            call()
        bytes_before, objects_before = in_use()
        for _ in range(TIMES):
            call()
        bytes_after, objects_after = in_use()
        if bytes_after - bytes_before > 16 * TIMES or objects_after - objects_before > TIMES // 2:
            left[name] = (bytes_after - bytes_before, objects_after - objects_before)
    assert left == {}


def test_clients_leave_nothing_behind(files):
    def once():
        with connect("tcp", pool_bytes=2 << 20) as c:
            c.read_batch(list(files)[:3])

    for _ in range(5):
        once()
    bytes_before, objects_before = in_use()
    for _ in range(20):
        once()
    bytes_after, objects_after = in_use()
    assert bytes_after - bytes_before < 200000 and objects_after - objects_before < 20

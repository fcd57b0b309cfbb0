# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Mistakes of the caller: an exception of a fitting type each, and the client goes on."""
import gc
import os

import pytest

from conftest import ADDRESSES, KEY, connect, run_python
import weka


@pytest.fixture
def going_on(shm, files):
    yield shm
    path = list(files)[2]
    assert shm.read(path) == files[path] == bytes(shm.read_batch([path])[0])


@pytest.mark.parametrize("method", ["read", "stat", "remove", "rmtree", "mkdir", "listdir", "scandir"])
def test_paths_that_cannot_be(going_on, method):
    call = getattr(going_on, method)
    for wrong, kind in [(None, TypeError), (5, TypeError), ([], TypeError), ("a\0b", ValueError),
                        (b"a\0b", ValueError), ("", FileNotFoundError), (b"", FileNotFoundError),
                        ("/\ud800", UnicodeEncodeError), ("x" * 5000, OSError), (object(), TypeError)]:
        with pytest.raises(kind):
            call(wrong)
    with pytest.raises(TypeError):
        call()
    with pytest.raises(TypeError):
        call("/", nonsense=1)


@pytest.mark.parametrize("method", ["read_batch", "submit_batch", "stat_batch", "remove_batch"])
def test_sequences_that_cannot_be(going_on, method):
    call = getattr(going_on, method)
    for wrong, kind in [(None, TypeError), (5, TypeError), ("/a", TypeError), (b"/a", TypeError),
                        ([None], TypeError), (["/a", 5], TypeError), (["/a", "b\0"], ValueError),
                        (["/a", ""], FileNotFoundError), (["/\udfff\ud800"], UnicodeEncodeError)]:
        with pytest.raises(kind):
            call(wrong)


def test_numbers_that_cannot_be(going_on, files):
    path = list(files)[2]
    for wrong, kind in [(-1, ValueError), (2**63, OverflowError), (2**200, OverflowError), (-2**200, ValueError),
                        (1.5, TypeError), ("1", TypeError)]:
        with pytest.raises(kind):
            going_on.read(path, wrong)
        with pytest.raises(kind):
            going_on.read(path, 0, wrong)
        with pytest.raises(kind):
            going_on.write(path, b"", wrong)
        with pytest.raises(kind):
            going_on.truncate(path, wrong)
        with pytest.raises(kind):
            going_on.read_batch([path], [wrong])
        with pytest.raises(kind):
            going_on.read_batch([path], None, [wrong])
    with pytest.raises(ValueError):
        going_on.read_batch([path], None, [0])
    with pytest.raises(ValueError):
        going_on.read_batch([path], [1, 2])
    with pytest.raises(TypeError):
        going_on.read_batch([path], "1")
    assert going_on.read(path, 2**62) == b""
    with pytest.raises(OSError):
        going_on.write(path, b"x", 2**63 - 1)
    batch = going_on.read_batch([path] * 3, [2**62, 2**63 - 1, 0], [2**63 - 1, 1, 2**62])
    assert bytes(batch[0]) == b"" and bytes(batch[2]) == files[path]
    with pytest.raises(ValueError):
        batch.wait(-1)
    with pytest.raises(ValueError):
        batch.wait(float("nan"))
    with pytest.raises(TypeError):
        batch.wait("1")
    assert batch.wait(float("inf")) and batch.wait(1e300)


def test_huge_counts(going_on, files):
    path = list(files)[2]
    with pytest.raises(ValueError):
        going_on.read_batch([path] * ((1 << 20) + 1))
    try:
        batch = going_on.read_batch([path] * 20000)
        assert bytes(batch[19999]) == files[path]
    except BlockingIOError as e:
        assert "pool" in str(e)
    long = path[:-1] + "/." * 1900 + path[-1:] if False else os.path.dirname(path) + "/." * 1900 + "/" + os.path.basename(path)
    assert [bytes(i) for i in going_on.read_batch([long] * 300)] == [files[path]] * 300
    assert len(going_on.stat_batch([long] * 300)) == 300


class Closing:
    """A path that does harm while it is asked."""

    def __init__(self, path, harm):
        self.path, self.harm = path, harm

    def __fspath__(self):
        self.harm()
        return self.path


def test_code_that_runs_inside_a_call(files):
    path = list(files)[2]
    c = connect()
    with pytest.raises(ValueError):
        c.read(Closing(path, c.close))
    with pytest.raises(ValueError):
        c.read_batch([path, Closing(path, c.close)])
    c = connect()
    paths = [path] * 10
    batch = c.read_batch([path, Closing(path, paths.clear), path])
    assert [bytes(i) for i in batch] == [files[path]] * 3

    def fails():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        c.read_batch([path, Closing(path, fails)])
    with pytest.raises(ZeroDivisionError):
        c.put_batch([(path, b"1"), (Closing(path, fails), b"2")])
    assert bytes(c.read_batch([Closing(path, lambda: c.read(path))])[0]) == files[path]
    c.close()


class Collected:
    """Garbage in a circle, whose end does something."""

    def __init__(self, end):
        self.me, self.end = self, end

    def __del__(self):
        self.end()


def test_code_that_runs_when_garbage_is_collected(shm, files, top):
    paths = list(files)[:20]
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for n in range(30):
            batch = shm.read_batch(paths + [top + "/none"])
            Collected(lambda b=batch: b.release())
            Collected(lambda: shm.read(paths[0]))
            try:
                batch[20]
            except (FileNotFoundError, ValueError):
                pass
            try:
                batch.errors()
            except (ValueError, BufferError):
                pass
    finally:
        gc.set_threshold(*threshold)


def test_views_after_the_end(files):
    path = list(files)[2]
    c = connect("tcp")
    batch = c.read_batch([path])
    item = batch[0]
    view = memoryview(item)
    c.close()
    del c, batch
    gc.collect()
    assert view == files[path] == bytes(item)
    view[0] = 0
    view.release()
    with pytest.raises(ValueError):
        view[0]


def test_objects_that_cannot_be_made():
    for kind in (weka.Batch, weka.Item):
        with pytest.raises(TypeError):
            kind()
        with pytest.raises(TypeError):
            kind.__new__(kind)
        with pytest.raises(TypeError):
            type("Sub", (kind,), {})
        with pytest.raises(TypeError):
            object.__new__(kind)


def test_clients_that_cannot_be():
    for kind, args, kwargs in [
        (TypeError, (5,), {}), (TypeError, ("shm:/x", KEY), {}), (TypeError, ("shm:/x",), {"key": "text"}),
        (ValueError, ("shm:/x",), {"key": b"short"}), (ValueError, ("shm:/x",), {"key": bytes(32), "key_file": KEY}),
        (ValueError, ("",), {}), (ValueError, ("shm:/x",), {"timeout": -1}), (ValueError, ("shm:/x",), {"timeout": 0}),
        (ValueError, ("a\0b",), {}), (ValueError, ("shm:/x",), {"key_file": "a\0b"}),
        (OverflowError, ("shm:/x",), {"pool_bytes": 2**64}), (ValueError, ("shm:/x",), {"pool_bytes": -1}),
        (OverflowError, ("shm:/x",), {"lanes": 2**32}), (TypeError, ("shm:/x",), {"nonsense": 1}),
        (OSError, ("shm:/x",), {"lanes": 1000}), (OSError, ("shm:/x",), {"key_file": "/none"}),
        (FileNotFoundError, ("shm:/none/none",), {"key": bytes(32)}), (OSError, ("shm:" + "x" * 5000,), {}),
    ]:
        with pytest.raises(kind):
            weka.Client(*args, **kwargs)
    c = weka.Client.__new__(weka.Client, ADDRESSES["shm"], key_file=KEY)
    assert c.listdir("/") is not None
    with pytest.raises(OSError):
        connect("tcp", pool_bytes=1 << 39)


def test_environment(files):
    done = run_python("import weka; print(weka.connect().info()['transport'])")
    assert done.stdout == "shm\n", done.stderr
    done = run_python("import os; del os.environ['WEKA_ADDRESS']\nimport weka; weka.Client()")
    assert "ValueError" in done.stderr and "WEKA_ADDRESS" in done.stderr


def test_data_that_cannot_be(going_on, top):
    for wrong in (None, "text", 5, [1, 2], memoryview(bytes(100))[::2]):
        with pytest.raises((TypeError, BufferError)):
            going_on.put(top + "/f", wrong)
        with pytest.raises((TypeError, BufferError)):
            going_on.write(top + "/f", wrong)
        with pytest.raises((TypeError, BufferError)):
            going_on.put_batch([(top + "/f", wrong)])
    for wrong in ([("/a",)], [("/a", b"", b"")], ["/a"], [None], 5, "text"):
        with pytest.raises(TypeError):
            going_on.put_batch(wrong)
    assert going_on.listdir(top) == [] or all(n.startswith("f") for n in going_on.listdir(top))


def test_a_buffer_that_is_being_read_into(going_on, files):
    path = list(files)[2]
    buffer = bytearray(100)
    view = memoryview(buffer)
    going_on.readinto(path, buffer)
    with pytest.raises(BufferError):
        buffer.extend(b"1")
    view.release()
    buffer.extend(b"1")

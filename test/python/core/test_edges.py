# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Where Python's own rules bite: forks beside threads, signals, locks, pickles, capsules, finalizers."""
import contextlib
import copy
import ctypes
import gc
import os
import pickle
import signal
import sys
import threading
import time

import pytest

from conftest import DAEMON, connect, go_on, halted, pool_used, run_python
import weka


def in_child(work):
    """Forks; True when work() returns without an exception in the child."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException as e:
            print(repr(e), file=sys.stderr)
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


@contextlib.contextmanager
def beside(work):
    """Another thread does it meanwhile."""
    results = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    try:
        yield results
    finally:
        thread.join()


# ---- forks ----------------------------------------------------------------------------------


@contextlib.contextmanager
def waiting(c, work, has_begun=lambda: True):
    """Another thread, connected, waits for an appliance that has stopped."""
    ready, go = threading.Event(), threading.Event()

    def run():
        c.stat("/")
        ready.set()
        go.wait()
        return work()

    with beside(run) as results:
        ready.wait()
        try:
            with halted():
                go.set()
                time.sleep(0.2)
                while not has_begun():
                    time.sleep(0.001)
                yield results
                assert results == [], "it waits all the while"
        finally:
            go.set()


@pytest.mark.parametrize("end", ["release", "del"])
def test_a_child_lets_go_of_a_batch_that_another_thread_waits_for(files, end):
    held = []

    def wait():
        held.append(c.submit_batch(list(files)[:20]))
        return held[0].wait()

    def child():
        if end == "release":
            held[0].release()
            assert held[0].released
        held.clear()
        gc.collect()

    with connect("tcp") as c:
        with waiting(c, wait, lambda: held) as results:
            assert in_child(child)
        assert results == [True] and bytes(held[0][1]) == files[list(files)[1]]


def test_a_fork_while_another_thread_waits_long(files):
    """It comes at once: a thread that waits takes turns with one that forks."""
    path = list(files)[1]
    with connect("tcp") as c:
        with waiting(c, lambda: c.read(path)) as results:
            for _ in range(3):
                assert in_child(lambda: None)
        assert results == [files[path]]


def test_a_batch_is_looked_at_while_its_thread_waits_long(files):
    """Others get the session's lock between two slices."""
    paths = list(files)
    held = []

    def read():
        held.append(c.submit_batch(paths[:10]))
        return c.read(paths[1])

    with connect("tcp") as c:
        with waiting(c, read, lambda: held) as results:
            for _ in range(10):
                assert held[0].done is False
        assert results == [files[paths[1]]]
        assert bytes(held[0][2]) == files[paths[2]]


def test_hooks_of_a_fork_may_use_the_client(files):
    """Also those that run while the package's own hold the sessions."""
    code = """if 1:
        import os, sys
        calls = []
        os.register_at_fork(before=lambda: call("before"), after_in_parent=lambda: call("parent"),
                            after_in_child=lambda: call("child"))
        import weka
        c = weka.Client()
        batch = c.submit_batch([sys.argv[1]] * 3)

        def call(when):
            c.stat(sys.argv[1])
            calls.append(when)
            if when != "child":
                assert len(c.read_batch([sys.argv[1]])) == 1 and batch.wait()

        pid = os.fork()
        if pid == 0:
            os._exit(calls != ["before", "child"])
        assert os.waitpid(pid, 0)[1] == 0
        c.stat(sys.argv[1])
        print(calls)
    """
    done = run_python(code, list(files)[1])
    assert done.stdout == "['before', 'parent']\n", done.stderr


def test_forks_in_two_threads_at_once(client, files):
    path = list(files)[7]

    def many():
        for _ in range(10):
            assert in_child(lambda: client.read(path))
        return client.read(path)

    client.stat("/")
    with beside(many) as results:
        many()
    assert results == [files[path]]


# ---- requests in flight ---------------------------------------------------------------------


def test_calls_wait_for_room_among_the_requests(files, top):
    """Many requests in flight are no error of a call that sends one more."""
    paths = list(files)
    for options in ({"requests_max": 2}, {"requests_max": 1}, {}):
        with connect("tcp", pool_bytes=64 << 20, **options) as c:
            c.put(top + "/large", bytes(5000000))
            with halted():
                batches = [c.submit_batch(paths[n:n + 10]) for n in range(0, 400, 10)]
                timer = threading.Timer(0.2, go_on)
                timer.start()
                assert len(c.stat_batch(paths[:50])) == 50
            timer.join()
            calls = [lambda: c.read(paths[1]) == files[paths[1]], lambda: c.stat(paths[1]),
                     lambda: c.put_batch([(top + "/%d" % n, b"x") for n in range(20)]),
                     lambda: len(c.read(top + "/large")) == 5000000,
                     lambda: c.readinto(top + "/large", bytearray(5000000)) == 5000000,
                     lambda: c.write(top + "/large", bytes(5000000)) == 5000000, lambda: c.listdir(top),
                     lambda: c.remove_batch([top + "/%d" % n for n in range(20)])]
            for call in calls:
                more = [c.submit_batch(paths[n:n + 10]) for n in range(0, 400, 10)]
                assert call()
                del more
            assert all(bytes(b[3]) == files[paths[n * 10 + 3]] for n, b in enumerate(batches))
            del batches
            assert pool_used(c) == 0


# ---- signals --------------------------------------------------------------------------------


class Alarm(TimeoutError):
    """As many handlers raise it: an OSError, like those of the appliance."""


@contextlib.contextmanager
def handler(call, first, every=0.0):
    before = signal.signal(signal.SIGALRM, call)
    left, _ = signal.setitimer(signal.ITIMER_REAL, first, every)  # of conftest's deadline
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, left)


def raises_alarm(*_):
    raise Alarm


def test_a_handlers_error_is_no_result(shm, top):
    """put_batch() has errors of files in its list, not that of a signal handler."""
    shm.stat("/")
    with halted(), pytest.raises(Alarm), handler(raises_alarm, 0.1):
        shm.put_batch([(top + "/a", bytes(5000000)), (top + "/b", b"b")], return_exceptions=True)
    assert shm.listdir(top) in ([], ["a"])


def test_an_interrupt_during_an_abort_is_not_lost(files, top):
    """The abort of a large put that failed waits, too; what a handler raises there comes out."""
    with connect("tcp", timeout=0.3) as c:
        for _ in range(50):
            ticks, error, has_raised = [], None, False

            def tick(*_):
                nonlocal has_raised
                ticks.append(time.monotonic())
                if len(ticks) == 1:
                    os.kill(DAEMON, signal.SIGSTOP)
                elif ticks[-1] - ticks[0] > 0.6 and not has_raised:
                    has_raised = True
                    raise Alarm

            try:
                with handler(tick, 0.01, 0.1):
                    c.put(top + "/large", bytes(40 << 20))
            except OSError as e:
                error = e
            finally:
                go_on()
            assert isinstance(error, Alarm) == has_raised, "the abort swallowed it"
            if has_raised:
                return
    raise AssertionError("no put was in its middle")


def test_large_puts_that_fail_leave_nothing(top):
    """Their directory goes meanwhile.  The appliance here has room for 16 hidden files: each is aborted."""
    failed = 0
    with connect("shm", pool_bytes=32 << 20) as c, connect("shm") as other:
        for n in range(2000):
            c.mkdir(top + "/d")
            try:
                with handler(lambda *_: other.rmtree(top + "/d"), 0.001 * (1 + n % 8)):
                    c.put(top + "/d/large", bytes(20 << 20))
            except FileNotFoundError:
                failed += 1
            if c.listdir(top) == ["d"]:
                c.rmtree(top + "/d")
            if failed == 60:
                break
        assert failed == 60
        c.put(top + "/large", b"whole" * 1000000)
        assert c.read(top + "/large") == b"whole" * 1000000


def test_interrupts_as_large_puts_begin_leave_nothing(top):
    """The answer to the first request comes after the exception; the hidden file goes all the same."""

    def tick(*_):
        resume.start()
        raise Alarm

    with connect("shm", pool_bytes=32 << 20) as c:
        c.put(top + "/before", b"connected")
        for n in range(20):
            resume = threading.Timer(0.05, go_on)
            with halted(), pytest.raises(Alarm), handler(tick, 0.1):
                c.put(top + "/large", bytes(5 << 20))
            resume.join()
        assert c.listdir(top) == ["before"]
        c.put(top + "/large", b"whole" * 1000000)
        assert c.read(top + "/large") == b"whole" * 1000000


# ---- pickles --------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_by_every_protocol(client, files, protocol):
    path = list(files)[3]
    again = pickle.loads(pickle.dumps(client, protocol))
    assert again.read(path) == files[path]
    again.close()
    batch = client.read_batch([path])
    for kept in (batch, batch[0]):
        with pytest.raises(TypeError) as e:
            pickle.dumps(kept, protocol)
        assert type(kept).__name__ in str(e.value)
    stat = client.stat(path)
    assert pickle.loads(pickle.dumps(stat, protocol)) == stat


def test_copies(client, files):
    path = list(files)[3]
    batch = client.read_batch([path])
    for make in (copy.copy, copy.deepcopy):
        assert make(client).read(path) == files[path]
        for kept in (batch, batch[0]):
            with pytest.raises(TypeError):
                make(kept)


def test_addresses_that_are_no_text(files):
    code = """if 1:
        import os, pickle, sys, weka
        path = os.environb[b"WEKA_ADDRESS"][4:]
        os.symlink(path, path + b"\\xff")
        os.environb[b"WEKA_ADDRESS"] = b"shm:" + path + b"\\xff"
        try:
            c = weka.Client()
            assert os.fsencode(c.addresses) == os.environb[b"WEKA_ADDRESS"] == os.fsencode(c.info()["address"])
            again = pickle.loads(pickle.dumps(c))
            assert again.addresses == c.addresses and weka.Client(c.addresses).read(sys.argv[1]) == c.read(sys.argv[1])
            try:
                weka.Client(c.addresses + "\\udcfe")
            except OSError as e:
                assert e.filename == c.addresses + "\\udcfe"
        finally:
            os.unlink(path + b"\\xff")
        print("done")
    """
    done = run_python(code, list(files)[1])
    assert done.stdout == "done\n", done.stderr


# ---- capsules -------------------------------------------------------------------------------


class Tensor(ctypes.Structure):
    """DLManagedTensor of dlpack.h."""

    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


def taken(capsule):
    """What a consumer does: the struct is its own, and the capsule is renamed."""
    api = ctypes.pythonapi
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
    at = api.PyCapsule_GetPointer(capsule, b"dltensor")
    taken.name = b"used_dltensor"  # the capsule keeps the pointer
    assert api.PyCapsule_SetName(capsule, taken.name) == 0
    return at


def test_a_capsule_that_was_taken(client, files):
    """The capsule goes first, the tensor later, in a thread that does not hold the GIL."""
    path = list(files)[5]
    batch = client.read_batch([path])
    capsule = batch[0].__dlpack__()
    at = taken(capsule)
    del capsule
    gc.collect()
    tensor = Tensor.from_address(at)
    assert (list(tensor.device), tensor.ndim, tensor.code, tensor.bits, tensor.lanes) == ([1, 0], 1, 1, 8, 1)
    assert tensor.shape[0] == len(files[path]) and not tensor.strides and tensor.byte_offset == 0
    assert ctypes.string_at(tensor.data, tensor.shape[0]) == files[path]
    with pytest.raises(BufferError):
        batch.release()
    del batch
    deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(tensor.deleter)  # it lets go of the GIL
    thread = threading.Thread(target=deleter, args=(at,))
    thread.start()
    thread.join()
    assert pool_used(client) == 0


def test_a_copy_is_not_promised(shm, files):
    item = shm.read_batch(list(files)[5:6])[0]
    for yes in (True, 1, "x"):
        with pytest.raises(BufferError):
            item.__dlpack__(copy=yes)
    for no in (False, 0, None):
        assert item.__dlpack__(copy=no)

    class Unsure:
        def __bool__(self):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        item.__dlpack__(copy=Unsure())
    for wrong, kind in [((1,), TypeError), ((1, "0"), TypeError), ((2**70, 0), OverflowError), (5, TypeError)]:
        with pytest.raises(kind):
            item.__dlpack__(dl_device=wrong)


# ---- objects --------------------------------------------------------------------------------


def test_buffers_are_plain(shm, files):
    path = list(files)[5]
    item = shm.read_batch([path])[0]
    view = memoryview(item)
    assert (view.format, view.itemsize, view.ndim, view.shape, view.strides) == ("B", 1, 1, (len(files[path]),), (1,))
    assert view.c_contiguous and not view.readonly and view.obj is item
    assert view.cast("b").tobytes() == files[path]
    again = memoryview(view)[10:20]
    view.release()
    assert again == files[path][10:20], "a view of a view keeps it by itself"
    empty = memoryview(shm.read_batch([list(files)[0]])[0])
    assert empty.nbytes == 0 and empty.tobytes() == b""


def test_types_are_closed(shm, files):
    batch = shm.read_batch(list(files)[5:6])
    for kept in (shm, batch, batch[0]):
        kind = type(kept)
        with pytest.raises(TypeError):
            kind.read = None
        with pytest.raises(TypeError):
            del kind.__doc__
        with pytest.raises(TypeError):
            type("Sub", (kind,), {})
        with pytest.raises(TypeError):
            kept.__class__ = weka.Batch if kind is weka.Item else weka.Item
        with pytest.raises(AttributeError):
            kept.nothing = 1


def test_errors_are_all_or_none(shm, files, top):
    """errors() looks at a batch to its end, whatever runs when garbage is collected."""

    class Releasing:
        def __init__(self, batch):
            self.me, self.batch = self, batch

        def __del__(self):
            with contextlib.suppress(BufferError):
                self.batch.release()

    none = [top + "/%d" % n for n in range(200)]
    threshold = gc.get_threshold()
    for _ in range(20):
        batch = shm.read_batch(none)
        Releasing(batch)
        gc.set_threshold(20)
        try:
            errors = batch.errors()
        except ValueError:
            continue  # it was released before
        finally:
            gc.set_threshold(*threshold)
        assert len(errors) == 200


def test_sessions_of_closed_clients_go(files):
    """A thread that lives on keeps nothing of the clients that others have closed."""
    path = list(files)[5]
    work, done = threading.Semaphore(0), threading.Semaphore(0)
    client = None
    counts = {}

    def loop():
        while True:
            work.acquire()
            if client is None:
                return
            client.read(path)
            done.release()

    thread = threading.Thread(target=loop)
    thread.start()
    for n in range(60):
        client = connect("shm", pool_bytes=1 << 20)
        work.release()
        done.acquire()
        client.close()
        gc.collect()
        if n in (19, 59):
            counts[n] = sys.getallocatedblocks()
    client = None
    work.release()
    thread.join()
    assert counts[59] - counts[19] < 20

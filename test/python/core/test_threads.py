# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Threads, children, signals: what a Client and a Batch are in each."""
import concurrent.futures
import errno
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time

import pytest

from conftest import ADDRESSES, KEY, connect, halted, has_let_go, pool_used, run_python, sessions_of, start_python
import weka


def test_each_thread_has_its_session(client, files):
    paths = list(files)
    ready = threading.Barrier(5)

    def work(n):
        ready.wait()
        for _ in range(10):
            mine = paths[n * 100:n * 100 + 100]
            batch = client.read_batch(mine)
            assert [bytes(i) for i in batch] == [files[p] for p in mine]
            assert client.read(mine[5]) == files[mine[5]]
        return client.info()["completed"]

    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        completed = list(pool.map(work, range(5)))
    assert all(20 <= n < 1000 for n in completed)


def test_a_batch_goes_from_thread_to_thread(client, files):
    paths = list(files)[:200]
    with concurrent.futures.ThreadPoolExecutor(1) as other:
        batch = other.submit(client.submit_batch, paths).result()
        assert batch.wait()
        view = memoryview(batch[7])
        assert view == files[paths[7]]
        del batch
        view.release()  # here: the other thread takes it back
        assert other.submit(pool_used, client).result() == 0
        batch = client.read_batch(paths)
        assert other.submit(lambda: bytes(batch[3])).result() == files[paths[3]]
        del batch
        kept = other.submit(lambda: memoryview(client.read_batch(paths)[9])).result()
    assert kept == files[paths[9]], "its thread has ended"


def test_waiting_in_two_threads_at_once(client, files):
    paths = list(files)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            batch = client.submit_batch(paths[:300])
            waits = [pool.submit(batch.wait) for _ in range(4)]
            assert client.read(paths[400]) == files[paths[400]]
            assert all(w.result() for w in waits)
            assert bytes(batch[299]) == files[paths[299]]


def test_others_run_while_one_waits(shm, files):
    """The GIL is free during a wait: the appliance is stopped, and another thread goes on."""
    path = list(files)[1]
    shm.read(path)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(shm.read, path).result()
        with halted():
            read = pool.submit(shm.read, path)
            for _ in range(20):
                time.sleep(0.005)  # it lets the other thread wait
                sum(range(10000))
            assert not read.done()
        assert read.result() == files[path]


def child(code, path, expected):
    """In a child: exit status 0 when it reads what is expected."""
    try:
        assert code(path) == expected
        os._exit(0)
    except BaseException as e:
        print(repr(e), file=sys.stderr)
        os._exit(1)


def test_fork(client, files):
    path = list(files)[99]
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            child(client.read, path, files[path])
        assert client.read(path) == files[path]
        assert os.waitpid(pid, 0)[1] == 0
    assert client.read(path) == files[path]


def test_fork_in_the_middle_of_a_batch(client, files):
    paths = list(files)[:300]
    batch = client.submit_batch(paths)
    whole = client.read_batch(paths[:3])
    view = memoryview(whole[1])

    def attempts(path):
        for call in (batch.wait, lambda: batch[0], batch.errors, lambda: whole[0]):
            with pytest.raises(OSError) as e:
                call()
            assert e.value.errno == errno.ESTALE and "fork" in str(e.value)
        assert len(view) == len(files[paths[1]]) and view[0] is not None
        return client.read(path)

    pid = os.fork()
    if pid == 0:
        child(attempts, paths[5], files[paths[5]])
    assert os.waitpid(pid, 0)[1] == 0
    assert [bytes(i) for i in batch] == [files[p] for p in paths]
    assert view == files[paths[1]]


def test_fork_while_another_thread_waits(client, files):
    paths = list(files)
    stop = threading.Event()

    def work():
        while not stop.is_set():
            assert [bytes(i) for i in client.read_batch(paths[:50])] == [files[p] for p in paths[:50]]

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        workers = [pool.submit(work) for _ in range(2)]
        try:
            for _ in range(5):
                pid = os.fork()
                if pid == 0:
                    child(client.read, paths[7], files[paths[7]])
                assert os.waitpid(pid, 0)[1] == 0
        finally:
            stop.set()
        [w.result() for w in workers]


def test_a_child_does_not_hold_the_sessions_of_its_parent():
    """The appliance sees that the parent is gone, though a child that does nothing lives on."""
    code = """if 1:
        import os, signal, sys, weka
        c = weka.Client()
        if os.fork() == 0:
            sys.stdin.read()
            os._exit(0)
        print("ready", flush=True)
        signal.pause()
    """
    parent = start_python(code)
    assert parent.stdout.readline() == "ready\n" and sessions_of(parent.pid) == 1
    os.kill(parent.pid, signal.SIGKILL)
    assert parent.wait() == -signal.SIGKILL
    gone = has_let_go(parent.pid)
    for pipe in (parent.stdin, parent.stdout, parent.stderr):
        pipe.close()
    assert gone


def read_in_worker(arguments):
    c, path = arguments
    return c.read(path)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing(client, files, method):
    paths = list(files)[:20]
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(read_in_worker, [(client, p) for p in paths]) == [files[p] for p in paths]
    assert client.read(paths[0]) == files[paths[0]]


def test_pickle(client, files):
    again = pickle.loads(pickle.dumps(client))
    path = list(files)[3]
    assert again.addresses == client.addresses and again.read(path) == files[path]
    with connect("tcp", timeout=50, lanes=1, requests_max=7, pool_bytes=4 << 20) as c:
        info = pickle.loads(pickle.dumps(c)).info()
        assert (info["requests_max"], info["pool_bytes"]) == (7, 4 << 20)
    with weka.Client(ADDRESSES["tcp"], key=bytes.fromhex(open(KEY).read().strip().split(":")[-1])) as c:
        with pytest.raises(TypeError):
            pickle.dumps(c)
    for unpicklable in (client.read_batch([path]), client.read_batch([path])[0]):
        with pytest.raises(TypeError):
            pickle.dumps(unpicklable)


class Interrupted(Exception):
    pass


CALLS = {
    "read": lambda c, p: c.read(p[0]),
    "readinto": lambda c, p: c.readinto(p[0], bytearray(10)),
    "write": lambda c, p: c.write(p[0] + "new", b"x"),
    "put": lambda c, p: c.put(p[0] + "new", b"x"),
    "put, large": lambda c, p: c.put(p[0] + "new", bytes(5000000)),
    "stat": lambda c, p: c.stat(p[0]),
    "listdir": lambda c, p: c.listdir("/"),
    "put_batch": lambda c, p: c.put_batch([(p[0] + "new", b"x")] * 2),
    "stat_batch": lambda c, p: c.stat_batch(p),
    "remove_batch": lambda c, p: c.remove_batch([p[0] + "none"]),
    "read_batch": lambda c, p: c.read_batch(p),
    "wait": lambda c, p: c.submit_batch(p).wait(),
    "connect": lambda c, p: connect("shm"),
}


@pytest.mark.parametrize("call", list(CALLS))
def test_a_signal_ends_a_wait(shm, files, call):
    """The appliance does not answer, and a signal comes, whose handler raises."""

    def interrupt(*_):
        raise Interrupted

    shm.stat("/")
    before = signal.signal(signal.SIGUSR1, interrupt)
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        with halted(), pytest.raises(Interrupted):
            timer.start()
            CALLS[call](shm, list(files))
            timer.join()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_handler_may_use_the_client(shm, files):
    """In the middle of a call, also of the call's own session."""
    paths = list(files)
    seen = []

    def handler(*_):
        batch = shm.read_batch(paths[:3])
        seen.append(bytes(batch[2]) == files[paths[2]])

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        for n in range(50):
            timer = threading.Timer(n * 0.0002, os.kill, (os.getpid(), signal.SIGUSR1))
            timer.start()
            for _ in range(5):
                assert [bytes(i) for i in shm.read_batch(paths[:200])] == [files[p] for p in paths[:200]]
            timer.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen and all(seen)


def test_keyboard_interrupt():
    """Ctrl-C in a script: a KeyboardInterrupt, and the usual exit status."""
    code = """if 1:
        import os, signal, threading, weka
        c = weka.Client(connect_timeout=50)
        c.put("/interrupted", b"x")
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        held = []
        while True:
            held = [c.submit_batch(["/interrupted"] * 100) for _ in range(3)]
            for b in held: b.wait()
    """
    done = run_python(code)
    assert done.returncode == -signal.SIGINT and "KeyboardInterrupt" in done.stderr


def test_timeout(files):
    paths = list(files)
    with connect("tcp", timeout=0.2) as hasty, connect("tcp") as patient:
        patient.stat("/")
        with halted():
            batch, late = patient.submit_batch(paths[:5]), hasty.submit_batch(paths[:5])
            assert batch.wait(0) is False and batch.wait(0.01) is False and not batch.done
            with pytest.raises(TimeoutError) as e:
                hasty.read(paths[0])
            assert e.value.filename == paths[0]
            with pytest.raises(TimeoutError):
                late[0]
        assert bytes(batch[1]) == files[paths[1]]


def test_the_end_of_an_interpreter(files):
    """With batches, views, threads and pending requests alive: an orderly exit."""
    code = """if 1:
        import sys, threading, weka
        c = weka.Client()
        path = sys.argv[1]
        batch = c.read_batch([path] * 10)
        view = memoryview(batch[3])
        pending = c.submit_batch([path] * 10)
        capsule = batch[2].__dlpack__()
        class Late:
            def __del__(self):
                view.release(); batch.release if batch else None
        late = Late()
        def loop():
            while True: c.read_batch([path] * 10)
        threading.Thread(target=loop, daemon=True).start()
        c.read(path)
        print(bytes(view[:3]))
    """
    for _ in range(3):
        done = run_python(code, list(files)[1])
        assert (done.returncode, done.stdout) == (0, "b'000'\n"), done.stderr

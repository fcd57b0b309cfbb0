# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Epoch streams: what comes, in what order, resumed; misuse; waits that end."""
import contextlib
import errno
import gc
import os
import signal
import threading
import time

import pytest

import weka
from conftest import LONG, connect, content, go_on, pool_used, start_python, stop, task_state

COUNT = 230


@pytest.fixture
def files(maker, top):
    """{path: bytes}, sorted as the dataset has them."""
    files = {"%s/%s/f%04d" % (top, "ab"[n % 2], n): content(n + 3) for n in range(COUNT)}
    for name in "ab":
        maker.mkdir(top + "/" + name)
    maker.put_batch(list(files.items()))
    return dict(sorted(files.items()))


@pytest.fixture
def dataset(maker, files, top):
    d = maker.create_dataset("s" + top.strip("/"), top)
    yield d
    maker.drop_dataset(d.name, 0)


def samples(stream):
    return [n for batch in stream for n in batch.samples]


def test_what_comes(dataset, files):
    paths = list(files)
    with dataset.stream(batch=16, seed=5) as stream:
        assert iter(stream) is stream
        seen = []
        for step, batch in enumerate(stream):
            assert (type(batch), batch.step, batch.done, batch.released) == (weka.SampleBatch, step, True, False)
            assert len(batch) == len(batch.samples) == len(batch.labels) == (16 if step < 14 else 6)
            assert (batch.samples.format, batch.labels.format) == ("q", "i")
            for item, n, label in zip(batch, batch.samples, batch.labels):
                assert bytes(item) == files[paths[n]] and len(item) == item.nbytes
                assert label == dataset.sample(n).label == "ab".index(paths[n].split("/")[-2])
                seen.append(n)
            assert batch[0].path == paths[batch.samples[0]] and batch.errors() == {}
        assert sorted(seen) == list(range(COUNT)) and seen != sorted(seen)
    assert samples(dataset.stream(batch=7, seed=5)) == seen
    assert samples(dataset.stream(batch=7, seed=5, ahead=1)) == seen
    assert samples(dataset.stream(batch=7, seed=6)) != seen != samples(dataset.stream(batch=7, seed=5, epoch=1))
    assert samples(dataset.stream(batch=100, shuffle=False)) == list(range(COUNT))
    assert samples(dataset.stream(batch=100, drop_last=True, seed=5)) == seen[:200]
    assert samples(dataset.stream(batch=16, seed=2**64 - 1, epoch=2**64 - 1)) != seen


def test_ranks(dataset):
    whole = samples(dataset.stream(batch=1, seed=9))
    for world, batch in ((2, 16), (3, 10), (8, 5), (300, 1)):
        ranks = [list(dataset.stream(batch=batch, seed=9, rank=r, world=world)) for r in range(min(world, 8))]
        assert len({len(r) for r in ranks}) == 1
        if world <= 8:
            steps = [[n for r in ranks for n in r[s].samples] for s in range(len(ranks[0]))]
            assert sum(steps, []) == whole
            assert max(len(r[-1]) for r in ranks) - min(len(r[-1]) for r in ranks) <= 1
        del ranks


def test_an_empty_batch(dataset):
    batches = [list(dataset.stream(batch=1, rank=r, world=300)) for r in range(0, 300, 40)]
    for (batch,) in batches:
        assert len(batch) == len(list(batch)) == len(batch.samples) <= 1
    assert {len(batch) for (batch,) in batches} == {0, 1}


def test_resume(dataset):
    whole = samples(dataset.stream(batch=1, seed=3, epoch=2))
    for stop in (0, 1, 4, 9):
        stream = dataset.stream(batch=10, seed=3, epoch=2, rank=1, world=2)
        for _ in range(stop):
            next(stream)
        cursor = stream.cursor()
        assert type(cursor) is bytes and len(cursor) == 64
        for world in (1, 3):
            rest = [list(dataset.stream(batch=7, seed=3, epoch=2, rank=r, world=world, cursor=cursor)) for r in range(world)]
            assert [n for step in zip(*rest) for b in step for n in b.samples] == whole[stop * 20:]
        del rest
    with dataset.stream(batch=10, seed=3) as stream:
        cursors = [stream.cursor()] + [stream.cursor() for _ in stream]
    assert stream.cursor() == cursors[-1] and len(set(cursors)) == 24
    assert samples(dataset.stream(batch=10, seed=3, cursor=memoryview(cursors[-1]))) == []


def test_cursors_that_do_not_fit(client, dataset, files, top):
    cursor = dataset.stream(batch=10, seed=3).cursor()
    other = client.create_dataset(dataset.name + "x", top + "/a")
    damaged = bytes([cursor[0]]) + bytes([cursor[1] ^ 1]) + cursor[2:]
    for d, kwargs in ((other, {"seed": 3}), (dataset, {"seed": 4}), (dataset, {"seed": 3, "epoch": 1}),
                      (dataset, {"seed": 3, "shuffle": False})):
        with pytest.raises(ValueError) as e:
            d.stream(batch=10, cursor=cursor, **kwargs)
        assert "cursor" in str(e.value)
    for wrong in (damaged, bytes(64), b"", cursor[:63], cursor + b"x"):
        with pytest.raises(ValueError):
            dataset.stream(batch=10, seed=3, cursor=wrong)
    for wrong in ("x" * 64, 5, [1] * 64):
        with pytest.raises(TypeError):
            dataset.stream(batch=10, seed=3, cursor=wrong)
    client.drop_dataset(other.name, 0)


def vectors():
    with open(os.path.join(os.path.dirname(__file__), "..", "..", "golden", "order_vectors.txt")) as f:
        return [tuple(map(int, line.split())) for line in f if line[0] != "#"]


def test_order(dataset):
    assert len(vectors()) == 96
    for count, seed, epoch, position, sample in vectors():
        assert weka.order(count, seed, epoch, position) == sample
    assert [weka.order(COUNT, 5, 2, p) for p in range(COUNT)] == samples(dataset.stream(batch=16, seed=5, epoch=2))
    for wrong in ((0, 1, 1, 0), (5, 1, 1, 5), (2**49, 1, 1, 1), (5, -1, 1, 1), (5, 1, 2**64, 1)):
        with pytest.raises(ValueError):
            weka.order(*wrong)
    with pytest.raises(TypeError):
        weka.order(1, 1, 1)
    with pytest.raises(TypeError):
        weka.order(1, 1, 1, "0")


def test_arguments_that_cannot_be(dataset):
    for kwargs, kind in [({"batch": 0}, ValueError), ({"batch": 65537}, ValueError), ({"batch": -1}, ValueError),
                         ({"batch": None}, TypeError), ({"batch": 1.5}, TypeError), ({}, TypeError),
                         ({"batch": 1, "world": 0}, ValueError), ({"batch": 1, "world": 65537}, ValueError),
                         ({"batch": 1, "rank": 1}, ValueError), ({"batch": 1, "rank": -1}, ValueError),
                         ({"batch": 1, "rank": 3, "world": 3}, ValueError), ({"batch": 1, "ahead": 0}, ValueError),
                         ({"batch": 1, "ahead": 257}, ValueError), ({"batch": 1, "seed": -1}, ValueError),
                         ({"batch": 1, "seed": 2**64}, ValueError), ({"batch": 1, "epoch": 2**64}, ValueError),
                         ({"batch": 1, "seed": "1"}, TypeError), ({"batch": 1, "seed": None}, TypeError),
                         ({"batch": 1, "nonsense": 1}, TypeError)]:
        with pytest.raises(kind):
            dataset.stream(**kwargs)
    with pytest.raises(TypeError):
        dataset.stream(5)
    for kind in (weka.Stream, weka.SampleBatch):
        with pytest.raises(TypeError):
            kind()
    with pytest.raises(TypeError):
        __import__("pickle").dumps(dataset.stream(batch=1))


def test_samples_that_changed(client, dataset, files):
    paths = list(files)
    client.put(paths[3], b"another")
    client.remove(paths[5])
    with dataset.stream(batch=8, shuffle=False) as stream:
        batch = next(stream)
        for i in range(8):
            if i in (3, 5):
                with pytest.raises(OSError) as e:
                    batch[i]
                assert (e.value.errno, e.value.filename) == (errno.ESTALE, paths[i])
            else:
                assert bytes(batch[i]) == files[paths[i]]
        errors = batch.errors()
        assert {i: (e.errno, e.filename) for i, e in errors.items()} == {
            i: (errno.ESTALE, paths[i]) for i in (3, 5)}
        with pytest.raises(OSError):
            list(batch)
        del batch
        assert len(samples(stream)) == COUNT - 8


def test_views_keep_the_memory(client, dataset, files):
    paths = list(files)
    stream = dataset.stream(batch=4)
    batch = next(stream)
    numbers, labels = batch.samples, batch.labels
    view = memoryview(batch[1])
    with pytest.raises(BufferError):
        batch.release()
    stream.close()
    stream.close()
    with pytest.raises(ValueError):
        next(stream)
    assert bytes(view) == files[paths[numbers[1]]] and stream.stats()["batches"] == 1
    assert client.info()["pool_used_bytes"] > 0
    del stream
    gc.collect()
    assert bytes(view) == files[paths[numbers[1]]]
    view.release()
    batch.release()
    for call in (lambda: batch[0], lambda: len(batch), lambda: batch.samples, lambda: batch.labels,
                 lambda: batch.step, lambda: batch.errors()):
        with pytest.raises(ValueError):
            call()
    assert batch.released and len(numbers) == len(labels) == 4
    assert pool_used(client) == 0


def test_views_after_close_of_everything(files, dataset):
    paths = list(files)
    c = connect()
    stream = c.dataset(dataset.name).stream(batch=4)
    batch = next(stream)
    n, view = batch.samples[0], memoryview(batch[0])
    c.close()
    for _ in range(2):
        with pytest.raises(ValueError):
            next(stream)
    assert bytes(view) == files[paths[n]] and batch[0].path == paths[n]
    stream.close()
    del batch, stream
    gc.collect()
    assert bytes(view) == files[paths[n]]


def test_a_dataset_that_closes_first(dataset, files):
    d = dataset.__reduce__()[0](*dataset.__reduce__()[1])
    stream = d.stream(batch=10, seed=1)
    first = next(stream)
    d.close()
    del d
    gc.collect()
    assert list(first.samples) + samples(stream) == samples(dataset.stream(batch=230, seed=1))
    assert first[0].path == list(files)[first.samples[0]]


def test_exceptions_in_the_loop(client, dataset):
    for _ in range(5):
        with pytest.raises(ZeroDivisionError):
            for batch in dataset.stream(batch=10):
                view = memoryview(batch[0])
                raise ZeroDivisionError
        del batch, view
    assert pool_used(client) == 0


def test_too_many_batches_are_held(dataset, files):
    c = connect(pool_bytes=1 << 20)
    d = c.dataset(dataset.name)
    stream = d.stream(batch=8, seed=4)
    held = []
    with pytest.raises(BlockingIOError) as e:
        while True:
            held.append(next(stream))
    assert e.value.errno == errno.EAGAIN and "pool" in str(e.value)
    seen = [n for b in held for n in b.samples]
    assert len(seen) >= 8
    del held
    assert seen + samples(stream) == samples(dataset.stream(batch=1, seed=4))
    assert stream.stats()["short_seconds"] >= 0
    with pytest.raises(OSError) as e:
        next(d.stream(batch=COUNT))
    assert e.value.errno == errno.EMSGSIZE and "pool_bytes" in str(e.value)
    c.close()


def test_streams_that_end_early_give_room(dataset):
    c = connect(pool_bytes=1 << 20)
    d = c.dataset(dataset.name)
    for n in range(50):
        assert len(next(d.stream(batch=30, epoch=n))) == 30
    assert pool_used(c) == 0
    c.close()


def test_a_batch_of_files_beside_a_stream(client, dataset, files):
    paths = list(files)
    stream = dataset.stream(batch=10, seed=1)
    seen = []
    for batch in stream:
        seen += batch.samples
        other = client.read_batch(paths[:20])
        assert [bytes(i) for i in other] == [files[p] for p in paths[:20]]
        assert client.read(paths[3]) == files[paths[3]]
    assert sorted(seen) == list(range(COUNT))


def test_several_streams_at_once(dataset):
    streams = [dataset.stream(batch=9, seed=n) for n in range(3)]
    seen = [[], [], []]
    for _ in range(26):
        for n in range(3):
            seen[n] += next(streams[n]).samples
    assert seen == [samples(dataset.stream(batch=1, seed=n)) for n in range(3)]


def test_stats(dataset, files):
    with dataset.stream(batch=10) as stream:
        assert stream.stats()["batches"] == 0
        list(stream)
        stats = stream.stats()
    assert (stats["batches"], stats["samples"], stats["bytes"]) == (23, COUNT, sum(map(len, files.values())))
    assert 0 <= stats["short_seconds"] <= stats["waited_seconds"] <= stats["seconds"]
    assert 0 <= stats["short_share"] <= stats["waited_share"] <= 1
    assert stats["manifest_seconds"] >= 0
    parts = [stats[k + "_seconds"] for k in ("short", "queue", "network", "appliance", "drive")]
    assert min(parts) >= 0 and sum(parts) <= stats["waited_seconds"] + 1e-6
    assert "starved" in stats["verdict"] and "starved" in stream.stats()["verdict"]
    assert stream.stats()["samples"] == COUNT


# ---- threads and processes


def test_a_stream_in_each_thread(client, dataset):
    seen = [[] for _ in range(4)]

    def run(rank):
        for batch in dataset.stream(batch=5, seed=8, rank=rank, world=4):
            seen[rank].append(list(batch.samples))

    threads = [threading.Thread(target=run, args=(r,)) for r in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [n for step in zip(*seen) for part in step for n in part] == samples(dataset.stream(batch=1, seed=8))


def test_one_stream_in_many_threads(client, dataset, files):
    stream, seen, wrong = dataset.stream(batch=3, seed=8), [], []
    paths = list(files)

    def run():
        for batch in stream:
            for item, n in zip(batch, batch.samples):
                if bytes(item) != files[paths[n]]:
                    wrong.append(n)
                seen.append(n)

    threads = [threading.Thread(target=run) for _ in range(5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(seen) == list(range(COUNT)) and not wrong
    del stream


def test_a_fork(client, dataset):
    stream = dataset.stream(batch=10, seed=6)
    batch = next(stream)
    view = memoryview(batch[0])
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for call in (lambda: next(stream), lambda: batch[1], lambda: batch[0].path, stream.stats):
                try:
                    call()
                    os._exit(3)
                except OSError as e:
                    if e.errno != errno.ESTALE:
                        os._exit(4)
            rest = dataset.stream(batch=10, seed=6, cursor=stream.cursor())
            code = 17 if len(samples(rest)) == COUNT - 10 and len(bytes(view)) == len(view) else 5
            view.release()
            stream.close()
            del batch, stream, rest
            gc.collect()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
    assert list(batch.samples) + samples(stream) == samples(dataset.stream(batch=1, seed=6))


# ---- waits that end: an appliance that is stopped


class Away(Exception):
    pass


@pytest.fixture
def stopped(shm, dataset):
    """A function that stops the appliance, until the end of the test; the list is in memory by then."""
    list(dataset.stream(batch=100))
    yield stop
    go_on()


def waits(dataset):
    """For a signal handler: whether it came while a call of a dataset or stream was waiting."""
    try:
        dataset.sample(0)
    except RuntimeError as e:
        return "middle of another call" in str(e)
    return False


@contextlib.contextmanager
def signalled(dataset, what):
    """Calls it once, from a signal handler that came while a call of a dataset or stream was waiting.

    The signal is sent until it comes then: nobody knows from outside when that is."""
    has = {"begun": False, "ended": False}  # no locks: what() may fork

    def handler(*_):
        if not has["begun"] and waits(dataset):
            has["begun"] = True
            what()

    def run():
        while not has["begun"] and not has["ended"]:
            time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGUSR1)

    signal.signal(signal.SIGUSR1, handler)
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
        assert has["begun"]
    finally:
        has["ended"] = True
        thread.join()


def away():
    raise Away


def test_a_wait_that_a_signal_ends(shm, dataset, stopped):
    whole = samples(dataset.stream(batch=1, seed=1))
    stream = dataset.stream(batch=10, seed=1)
    stopped()
    for _ in range(3):
        with pytest.raises(Away), signalled(dataset, away):
            next(stream)
    go_on()
    cursor = stream.cursor()
    assert samples(stream) == whole == samples(dataset.stream(batch=10, seed=1, cursor=cursor))


def test_a_batch_that_comes_while_a_signal_ends_the_call(shm, dataset, files, stopped):
    stream = dataset.stream(batch=10, seed=1)
    cursor = stream.cursor()

    def receives_it():
        go_on()
        while shm.info()["completed"] < shm.info()["submitted"]:
            shm.stat("/")
        raise Away

    stopped()
    with pytest.raises(Away), signalled(dataset, receives_it):
        next(stream)
    assert stream.stats()["batches"] == 1 and stream.cursor() == cursor
    assert samples(stream) == samples(dataset.stream(batch=10, seed=1, cursor=cursor))


def test_memory_comes_back_late(dataset, stopped):
    """What a stream that is gone had asked for, when the appliance answers."""
    with connect("shm", pool_bytes=1 << 20) as c:
        d = c.dataset(dataset.name)
        next(d.stream(batch=30)).release()
        stopped()
        with pytest.raises(Away), signalled(d, away):
            next(d.stream(batch=30))
        assert c.info()["pool_used_bytes"] > 0
        timer = threading.Timer(2, go_on)
        timer.start()
        assert len(next(d.stream(batch=30))) == 30
        timer.join()


@pytest.mark.parametrize("call", ["create", "verify", "open"])
def test_other_waits_that_a_signal_ends(shm, dataset, stopped, top, call):
    new = dataset.__reduce__()[0].__self__
    stopped()
    with pytest.raises(Away), signalled(dataset, away):
        {"create": lambda: shm.create_dataset(dataset.name, top), "verify": dataset.verify,
         "open": lambda: new.dataset(dataset.name)}[call]()


def test_what_a_signal_handler_may_do(shm, dataset, files, stopped):
    stream, seen = dataset.stream(batch=10, seed=1), []
    old, path = next(stream), list(files)[3]

    def uses():
        go_on()
        seen.append(shm.read(path) == files[path] == bytes(shm.read_batch([path])[0]))
        old.release()
        for call in (lambda: next(stream), lambda: dataset.sample(0), lambda: dataset.stream(batch=3)):
            try:
                call()
            except RuntimeError as e:
                seen.append("middle of another call" in str(e))

    stopped()
    with signalled(dataset, uses):
        rest = samples(stream)
    assert seen == [True] * 4 and len(rest) == COUNT - 10 and old.released


def test_a_signal_handler_that_closes(shm, dataset, stopped):
    stream = dataset.stream(batch=10)

    def closes():
        go_on()
        stream.close()

    stopped()
    with signalled(dataset, closes), pytest.raises(ValueError):
        next(stream)
    assert stream.closed
    with pytest.raises(ValueError):
        next(stream)


def test_a_signal_handler_that_forks(shm, dataset, stopped):
    stream, parent, status = dataset.stream(batch=10, seed=1), os.getpid(), []

    def forks():
        child = os.fork()
        if child:
            go_on()
            status.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    stopped()
    try:
        with signalled(dataset, forks):
            batch = next(stream)
    except OSError as e:
        os._exit(17 if e.errno == errno.ESTALE and os.getpid() != parent else 1)
    finally:
        if os.getpid() != parent:
            os._exit(2)
    assert status == [17]
    assert list(batch.samples) + samples(stream) == samples(dataset.stream(batch=1, seed=1))


def test_a_fork_while_another_thread_waits(shm, dataset, stopped):
    got = []

    def run():
        got.extend(samples(dataset.stream(batch=10, seed=1)))

    list(map(len, dataset.stream(batch=10)))
    stopped()
    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.1)
    child = os.fork()
    if child == 0:
        os._exit(17)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
    go_on()
    thread.join()
    assert got == samples(dataset.stream(batch=1, seed=1))


def test_ctrl_c(shm, dataset, stopped):
    code = """
import sys, weka
d = weka.Client().dataset(sys.argv[1])
list(d.stream(batch=100))
stream = d.stream(batch=10)
try:
    print("open", flush=True)
    sys.stdin.readline()
    print("goes on", flush=True)
    next(stream)
except KeyboardInterrupt:
    print("ended")
"""
    child = start_python(code, dataset.name)
    assert child.stdout.readline() == "open\n"
    stopped()
    child.stdin.write("\n")
    child.stdin.flush()
    assert child.stdout.readline() == "goes on\n"
    while task_state(child.pid, child.pid) == "R":
        time.sleep(0.001)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=LONG)
    assert (child.returncode, out) == (0, "ended\n"), err


def test_an_end_of_the_process_while_a_thread_waits(shm, dataset, stopped):
    code = """
import sys, threading, time, weka
d = weka.Client().dataset(sys.argv[1])
def run():
    list(d.stream(batch=100))
    ready.set()
    go.wait()
    ready.set()
    list(d.stream(batch=10))
ready, go = threading.Event(), threading.Event()
threading.Thread(target=run, daemon=True).start()
ready.wait()
ready.clear()
print("open", flush=True)
sys.stdin.readline()
go.set()
ready.wait()
time.sleep(0.1)
print("ended")
"""
    child = start_python(code, dataset.name)
    assert child.stdout.readline() == "open\n"
    stopped()
    out, err = child.communicate("\n", timeout=LONG)
    assert (child.returncode, out) == (0, "ended\n"), err


# ---- over and over


def test_epochs_leave_nothing_behind(client, dataset):
    for epoch in range(10):
        for batch in dataset.stream(batch=25, epoch=epoch):
            [memoryview(item) for item in batch]
    del batch
    assert pool_used(client) == 0


def test_code_that_runs_when_garbage_is_collected(shm, dataset, files):
    threshold = gc.get_threshold()
    shm.remove(list(files)[0])

    class Collected:
        def __init__(self, end):
            self.me, self.end = self, end

        def __del__(self):
            try:
                self.end()
            except (ValueError, BufferError):
                pass

    gc.set_threshold(1)
    try:
        for n in range(20):
            stream = dataset.stream(batch=40, shuffle=False)
            batch = next(stream)
            Collected(batch.release)
            Collected(stream.close)
            for call in (lambda: batch.errors(), lambda: batch[0], lambda: batch.samples, lambda: batch[1].path,
                         lambda: batch.labels, stream.stats, lambda: next(stream)):
                try:
                    call()
                except (ValueError, OSError):
                    pass
    finally:
        gc.set_threshold(*threshold)
    del batch, stream


def through_a_stop(kind, name, timeout):
    """What comes, and how many errors, when the appliance stops in the middle, until the first error."""
    seen, errors, has_stopped = [], 0, False
    with connect(kind, timeout=timeout) as client:
        stream = client.dataset(name).stream(batch=5, seed=3, ahead=6)
        while True:
            try:
                if len(seen) == 50 and not has_stopped:
                    stop()
                    has_stopped = True
                seen += next(stream).samples
            except TimeoutError:
                errors += 1
                go_on()
            except StopIteration:
                return seen, errors


@pytest.mark.parametrize("kind", ["shm", "tcp"])
def test_a_lost_connection_is_one_error(kind, dataset):
    """Whatever was read ahead while the appliance was away is asked for again."""
    whole, errors = samples(dataset.stream(batch=5, seed=3)), None
    for timeout in (0.3, 1, 4, 16, 64):  # a machine that is as slow makes errors of its own
        with contextlib.suppress(TimeoutError):  # of the opening
            seen, errors = through_a_stop(kind, dataset.name, timeout)
            assert seen == whole
            if errors == 1:
                break
    assert errors == 1

# SPDX-License-Identifier: BSD-2-Clause-Patent
"""weka.torch.IterableDataset: each sample once an epoch, one order for every world and number of
workers, resumed anywhere; against the order as PROTOCOL.md 12 has it (test/peer/epoch_order.py)."""
import errno
import gc
import os
import pickle
import random
import re
import signal
import sys

import numpy
import pytest

from conftest import connect, content, pool_used, run_python

torch = pytest.importorskip("torch", reason="no torch")

import torch.distributed  # noqa: E402
import torch.utils.data  # noqa: E402

import weka.torch  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "peer"))
import epoch_order as order  # noqa: E402

COUNT = 157


@pytest.fixture(scope="module")
def dataset(clients):
    """Sample i is its number, a few times; its label is i % 3."""
    client = clients["shm"]
    top = "/epochs-%d" % os.getpid()
    client.mkdir(top)
    for label in range(3):
        client.mkdir("%s/%d" % (top, label))
    client.put_batch([("%s/%d/%04d" % (top, n % 3, n), b"%08d" % n * (n % 5 + 1)) for n in range(COUNT)])
    made = client.create_dataset("epochs-%d" % os.getpid(), top)
    yield made
    made.close()
    client.drop_dataset(made.name, 0)
    client.rmtree(top)


@pytest.fixture
def lent(shm):
    """The client's pool is empty afterwards."""
    return shm


def number(item):
    """A decoder: the number that the file was made of."""
    data = bytes(item)
    assert data == data[:8] * (len(data) // 8)
    return torch.tensor(int(data[:8]))


def numbers(dataset, seed, epoch):
    """The numbers of an epoch, in order; samples are sorted by directory first."""
    files = sorted(range(COUNT), key=lambda n: (n % 3, n))
    return [files[order.order(COUNT, seed, epoch, p)] for p in range(COUNT)]


def steps(whole, begin, world, batch, drop_last):
    """What the ranks get: a list of steps, of a list for each rank; PROTOCOL.md 12."""
    at, all_steps = begin, []
    while len(whole) - at >= world * batch:
        all_steps.append([whole[at + r * batch:at + (r + 1) * batch] for r in range(world)])
        at += world * batch
    left = len(whole) - at
    if left and not drop_last:
        all_steps.append([whole[at + left * r // world:at + left * (r + 1) // world] for r in range(world)])
    return all_steps


def batches(loader):
    """Lists of numbers; the labels are right."""
    out = []
    for samples, labels in loader:
        assert labels.dtype == torch.int64 and labels.tolist() == [n % 3 for n in samples.tolist()]
        out.append(samples.tolist())
    return out


def of_rank(all_steps, rank):
    return [step[rank] for step in all_steps if step[rank]]


def test_alone(lent, dataset):
    data = weka.torch.IterableDataset(dataset, 10, seed=4, decode=number)
    assert (len(data), data.rank, data.world, data.epoch) == (16, 0, 1, 0)
    whole = numbers(dataset, 4, 0)
    assert batches(data) == of_rank(steps(whole, 0, 1, 10, False), 0) == batches(data)
    assert data.stats["samples"] == COUNT and 0 <= data.stats["waited_share"] <= 1
    data.set_epoch(7)
    assert sum(batches(torch.utils.data.DataLoader(data, batch_size=None)), []) == numbers(dataset, 4, 7)
    with pytest.raises(ValueError):
        data.set_epoch(-1)
    plain = weka.torch.IterableDataset(dataset, 50, shuffle=False)
    samples, labels = next(iter(plain))
    assert [bytes(s.numpy())[:8] for s in samples] == [b"%08d" % n for n in range(0, 150, 3)]
    assert labels.tolist() == [0] * 50
    del samples
    gc.collect()


@pytest.mark.parametrize("workers,start,threads", [(0, None, 0), (0, None, 3), (2, "fork", 0), (3, "fork", 2),
                                                   (2, "spawn", 0)])
def test_loaders(lent, dataset, workers, start, threads):
    for epoch, (world, drop_last) in enumerate([(1, False), (3, False), (2, True)][:1 if start == "spawn" else 3]):
        expected = steps(numbers(dataset, 9, epoch), 0, world, 8, drop_last)
        for rank in range(world):
            data = weka.torch.IterableDataset(dataset, 8, seed=9, rank=rank, world=world, drop_last=drop_last,
                                              decode=number, threads=threads)
            data.set_epoch(epoch)
            loader = torch.utils.data.DataLoader(data, batch_size=None, num_workers=workers,
                                                 multiprocessing_context=start)
            assert batches(loader) == of_rank(expected, rank)


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_that_stay(lent, dataset, workers):
    data = weka.torch.IterableDataset(dataset, 8, seed=1, decode=number)
    loader = torch.utils.data.DataLoader(data, batch_size=None, num_workers=workers, persistent_workers=workers > 0,
                                         multiprocessing_context="fork" if workers else None)
    for epoch in (0, 1, 5):
        data.set_epoch(epoch)
        assert sum(batches(loader), []) == numbers(dataset, 1, epoch)


def test_random_configurations(lent, dataset):
    """Every share of every worker of every rank, begun anywhere, and resumed with another world."""
    rng = random.Random(12)
    signal.alarm(300)  # in place of conftest's minute
    for _ in range(100 if os.environ.get("TEST_LENGTH") == "short" else 1000):
        world, batch, workers = rng.randint(1, 9), rng.randint(1, 40), rng.choice((1, 1, 2, 3))
        drop_last, seed, epoch = rng.random() < 0.5, rng.getrandbits(64), rng.randrange(2**40)
        whole, begin, taken = numbers(dataset, seed, epoch), 0, []
        for attempt in range(4):
            expected = steps(whole, begin, world, batch, drop_last)
            stop = len(expected) if attempt == 3 else rng.randint(0, len(expected))
            state = None
            for rank in range(world):
                data = weka.torch.IterableDataset(dataset, batch, seed=seed, rank=rank, world=world,
                                                  drop_last=drop_last, decode=number, threads=rng.choice((0, 0, 0, 2)))
                data.load_state_dict({"cursor": data._cursors.build(epoch, begin), "batches": 0,
                                      "worker": 0, "workers": 1, "world": 99, "batch_size": 99})
                assert (data.epoch, len(data)) == (epoch, len(expected))
                mine = [shared(data, w, workers) for w in range(workers)]
                got = [mine[s % workers][s // workers] for s in range(len(expected)) if expected[s][rank]]
                assert got == of_rank(expected, rank), (world, batch, workers, drop_last, begin, rank)
                if state is None:
                    state = data.state_dict(batches=stop)
                assert data.state_dict(batches=stop) == state
            taken += sum(sum(expected[:stop], []), [])
            begin = data._cursors.parse(state["cursor"])[1]
            assert whole[:begin] == taken
            if begin == COUNT:
                break
            world, batch, workers = rng.randint(1, 9), rng.randint(1, 40), rng.choice((1, 1, 2, 3))


def shared(data, worker, workers):
    """What worker `worker` of `workers` yields, in this process."""
    begin = int(data._place[1])
    return [samples.tolist() for samples, _ in data._iterate(begin, 0, worker, workers)]


def test_killed_and_resumed_at_any_batch(lent, dataset):
    expected = steps(numbers(dataset, 3, 2), 0, 1, 10, False)
    for stop in range(len(expected) + 1):
        data = weka.torch.IterableDataset(dataset, 10, seed=3, decode=number, threads=stop % 3)
        data.set_epoch(2)
        it = iter(data)
        assert [next(it)[0].tolist() for _ in range(stop)] == [s[0] for s in expected[:stop]]
        state = pickle.loads(pickle.dumps(data.state_dict()))
        assert state["cursor"] == data.state_dict(batches=stop)["cursor"]
        del it
        rest = []
        for rank in range(3):
            other = weka.torch.IterableDataset(dataset, 7, seed=3, rank=rank, world=3, decode=number)
            other.load_state_dict(state)
            other.set_epoch(2)  # as the loop over epochs does
            rest.append([s.tolist() for s, _ in other])
        assert sorted(sum(sum(rest, []), [])) == sorted(sum((s[0] for s in expected[stop:]), []))
        again = weka.torch.IterableDataset(dataset, 10, seed=3, decode=number)
        again.load_state_dict(state)
        assert batches(again) == [s[0] for s in expected[stop:]]
        again.set_epoch(3)
        assert sum(batches(again), []) == numbers(dataset, 3, 3)


def test_the_state_of_workers(lent, dataset):
    """As torchdata's StatefulDataLoader keeps it: of each worker, to go on with as many."""
    expected = steps(numbers(dataset, 3, 0), 0, 2, 6, False)
    for stop in (0, 1, 5, 13):
        rest = {}
        for worker in range(3):
            data = weka.torch.IterableDataset(dataset, 6, seed=3, rank=1, world=2, decode=number)
            as_worker(data, worker, 3)
            it = iter(data)
            mine = range(worker, len(expected), 3)
            taken = min(sum(s < stop for s in mine), len(mine))
            for _ in range(taken):
                next(it)
            state = data.state_dict()
            new = weka.torch.IterableDataset(dataset, 6, seed=3, rank=1, world=2, decode=number)
            new.load_state_dict(state)
            as_worker(new, worker, 3)
            for s, (samples, _) in zip(mine[taken:], new):
                rest[s] = samples.tolist()
            it.close()
        assert [rest[s] for s in sorted(rest)] == [s[1] for s in expected[stop:] if s[1]]
    with pytest.raises(ValueError):
        weka.torch.IterableDataset(dataset, 6, seed=3, decode=number).load_state_dict(state)
    new.load_state_dict(state)
    as_worker(new, 0, 3)
    with pytest.raises(ValueError):
        iter(new)


def as_worker(data, worker, workers):
    torch.utils.data._utils.worker._worker_info = torch.utils.data._utils.worker.WorkerInfo(
        id=worker, num_workers=workers, seed=0, dataset=data)


@pytest.fixture(autouse=True)
def no_worker():
    yield
    torch.utils.data._utils.worker._worker_info = None


def test_states_that_do_not_fit(lent, dataset):
    data = weka.torch.IterableDataset(dataset, 10, seed=3, decode=number)
    state = data.state_dict(batches=3)
    for wrong in (weka.torch.IterableDataset(dataset, 10, seed=4, decode=number),
                  weka.torch.IterableDataset(dataset, 10, seed=3, shuffle=False, decode=number)):
        with pytest.raises(ValueError):
            wrong.load_state_dict(state)
    for cursor in (b"", bytes(64), state["cursor"][:-1] + b"x", state["cursor"] + b"x"):
        with pytest.raises(ValueError):
            data.load_state_dict(dict(state, cursor=cursor))
    for batches_ in (-1, 17):
        with pytest.raises(ValueError):
            data.state_dict(batches=batches_)
    for kwargs, kind in [({"batch_size": 0}, ValueError), ({"batch_size": "1"}, TypeError),
                         ({"batch_size": 1, "rank": 1}, ValueError), ({"batch_size": 1, "world": 0, "rank": 5}, ValueError),
                         ({"batch_size": 1, "threads": -1}, ValueError), ({"batch_size": 1, "ahead": 0}, ValueError),
                         ({"batch_size": 1, "seed": -1}, (ValueError, Exception))]:
        with pytest.raises(kind):
            weka.torch.IterableDataset(dataset, **kwargs)


def test_the_library_agrees_on_cursors(lent, dataset):
    for how in ({}, {"shuffle": False}, {"weights": "balanced", "length": 3 * COUNT}, {"weights": [1, 2, 4]}):
        length = how.get("length", COUNT)
        with dataset.stream(batch=1, seed=2**64 - 1, **how) as first:
            cursors = weka._cursor.Cursors(first.cursor(), length)
        with dataset.stream(batch=10, seed=2**64 - 1, epoch=5, **how) as stream:
            for n, _ in enumerate(stream, 1):
                position = min(n * 10, length)
                assert stream.cursor() == cursors.build(5, position)
                assert cursors.parse(stream.cursor()) == (5, position)
        assert n == -(-length // 10)


# ---- samples drawn by weight


SIZES = [len(range(label, COUNT, 3)) for label in range(3)]


def drawn(weights, seed, epoch, length, sizes=SIZES):
    """The numbers of samples of an epoch, as PROTOCOL.md 12 has it."""
    places = [order.weighted(sizes, weights, seed, epoch, p) for p in range(length)]
    return [sum(sizes[:group]) + n for group, n in places]


def test_streams_by_weight(lent, dataset):
    for weights in ("balanced", [1, 2, 4], [0, 0, 5], numpy.array([3, 1, 0], numpy.uint32), iter([7, 7, 7])):
        numbers_ = [1, 1, 1] if isinstance(weights, str) else [7] * 3 if not hasattr(weights, "__len__") else list(weights)
        stream = dataset.stream(batch=16, seed=6, epoch=3, weights=weights, length=400)
        assert [n for batch in stream for n in batch.samples] == drawn([int(w) for w in numbers_], 6, 3, 400)
    each = [n % 4 for n in range(COUNT)]
    stream = dataset.stream(batch=16, seed=6, weights=each)
    assert [n for batch in stream for n in batch.samples] == drawn(each, 6, 0, COUNT, [1] * COUNT)
    batches = [list(dataset.stream(batch=8, seed=1, weights="balanced", rank=r, world=2)) for r in range(2)]
    taken = [n for pair in zip(*batches) for batch in pair for n in batch.samples]
    assert taken == drawn([1, 1, 1], 1, 0, COUNT)


def test_weights_that_cannot_be(lent, dataset):
    for weights, length, kind, text in [
            ([1, 2], None, ValueError, "2 weights, but the dataset has 3 classes"), ([1, -2, 3], None, ValueError, "weight"),
            ([1, 2, 2**32], None, ValueError, "weight"), ([1.0, 2, 3], None, TypeError, ""),
            ("equal", None, ValueError, "balanced"), ([0, 0, 0], None, ValueError, "all weights are 0"),
            (b"123", None, TypeError, "sequence"), (5, None, TypeError, ""), ("balanced", 0, ValueError, "length"),
            ("balanced", -1, ValueError, "length"), (None, 10, ValueError, "needs weights"),
            ("balanced", 2**50, ValueError, "2^48")]:
        with pytest.raises(kind, match=re.escape(text)):
            dataset.stream(batch=1, weights=weights, length=length)
    with pytest.raises(ValueError, match="shuffled"):
        dataset.stream(batch=1, weights="balanced", shuffle=False)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_by_weight(lent, dataset, workers):
    data = weka.torch.IterableDataset(dataset, 10, seed=2, weights=[1, 1, 6], length=333, decode=number)
    files = sorted(range(COUNT), key=lambda n: (n % 3, n))
    assert len(data) == 34
    for epoch in range(2):
        data.set_epoch(epoch)
        whole = [files[n] for n in drawn([1, 1, 6], 2, epoch, 333)]
        loader = torch.utils.data.DataLoader(data, batch_size=None, num_workers=workers)
        assert [int(n) for samples, _ in loader for n in samples] == whole
    state = data.state_dict(batches=20)
    other = weka.torch.IterableDataset(dataset, 4, seed=2, weights=[1, 1, 6], length=333, decode=number, world=1)
    other.load_state_dict(state)
    assert [int(n) for samples, _ in other for n in samples] == whole[200:]
    with pytest.raises(ValueError, match="other weights"):
        weka.torch.IterableDataset(dataset, 4, seed=2, weights=[1, 1, 5], length=333).load_state_dict(state)
    with pytest.raises(ValueError, match="other weights"):
        weka.torch.IterableDataset(dataset, 4, seed=2).load_state_dict(state)


def test_distributed(lent, dataset, tmp_path):
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("torch without gloo")
    code = """
import os, sys, torch.distributed, weka.torch
torch.distributed.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=int(sys.argv[3]), world_size=2)
data = weka.torch.IterableDataset(weka.Client().dataset(sys.argv[1]), 10, decode=lambda item: int(bytes(item)[:8]))
print(data.rank, data.world, sorted(sum((batch.tolist() for batch, _ in data), [])))
"""
    import concurrent.futures
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda r: run_python(code, dataset.name, str(tmp_path / "meet"), str(r)), range(2)))
    expected = steps(numbers(dataset, 0, 0), 0, 2, 10, False)
    for rank in range(2):
        assert done[rank].stdout == "%d 2 %s\n" % (rank, sorted(sum((s[rank] for s in expected), []))), done[rank].stderr


def test_a_file_that_changed(shm, top):
    shm.put_batch([("%s/%d" % (top, n), content(n + 1)) for n in range(30)])
    made = shm.create_dataset("changed-%d" % os.getpid(), top)
    shm.put(top + "/7", b"other")
    for threads in (0, 2):
        data = weka.torch.IterableDataset(made, 10, decode=len, threads=threads)
        with pytest.raises(OSError) as e:
            for _ in data:
                pass
        assert (e.value.errno, e.value.filename) == (errno.ESTALE, top + "/7")
    loader = torch.utils.data.DataLoader(data, batch_size=None, num_workers=1, multiprocessing_context="fork")
    with pytest.raises(OSError):
        list(loader)
    del e, data, loader
    shm.drop_dataset(made.name, 0)


def fails(item):
    raise ZeroDivisionError


def test_a_decoder_that_fails(lent, dataset):
    for threads in (0, 2):
        with pytest.raises(ZeroDivisionError):
            list(weka.torch.IterableDataset(dataset, 10, decode=fails, threads=threads))


def test_a_loop_that_ends_early(lent, dataset):
    for threads in (0, 2):
        for n in range(20):
            for _ in weka.torch.IterableDataset(dataset, 10, threads=threads):
                break
    for n in range(10):
        data = weka.torch.IterableDataset(dataset, 25, decode=number)
        for samples, _ in data:
            pass


@pytest.mark.parametrize("workers", [0, 2])
def test_samples_by_number(lent, dataset, workers):
    data = weka.torch.Dataset(dataset, decode=number)
    assert len(data) == COUNT and data[-1] == data[COUNT - 1]
    files = sorted(range(COUNT), key=lambda n: (n % 3, n))
    assert [(int(s), label) for s, label in data.__getitems__([5, 150, 5])] == [(files[n], files[n] % 3) for n in (5, 150, 5)]
    loader = torch.utils.data.DataLoader(data, batch_size=20, shuffle=True, num_workers=workers,
                                         multiprocessing_context="fork" if workers else None)
    seen = [pair for samples, labels in loader for pair in zip(samples.tolist(), labels.tolist())]
    assert sorted(seen) == [(n, n % 3) for n in range(COUNT)]
    assert [t for _, t in weka.torch.Dataset(dataset, targets=range(COUNT)).__getitems__([7, 3])] == [7, 3]
    with pytest.raises(IndexError):
        data[COUNT]
    for wrong in ((dataset, ["/a"]), (None,)):
        with pytest.raises(TypeError):
            weka.torch.Dataset(*wrong)


# ---- memory of our own


class Cuda:
    """A CUDA that only writes down what was locked."""

    def __init__(self, error=0):
        self.locked, self.error = {}, error

    def cudaHostRegister(self, address, size, flags):
        self.locked[address] = size
        return self.error

    def cudaHostUnregister(self, address):
        del self.locked[address]


def test_page_locked_batches(clients, dataset, monkeypatch):
    cuda = Cuda()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "cudart", lambda: cuda)
    with connect("shm", pool_bytes=2 << 20) as client:
        own = client.dataset(dataset.name)
        data = weka.torch.IterableDataset(own, 16, seed=3, pin_memory=True, pool_bytes=3 << 20)
        assert not cuda.locked  # nothing is locked before it is used
        seen = []
        for epoch in range(2):
            data.set_epoch(epoch)
            for samples, _ in data:
                ((begin, size),) = cuda.locked.items()
                assert size == 4 << 20
                assert all(begin <= s.data_ptr() < begin + size for s in samples)
                seen += [number(s.numpy()) for s in samples]
            del samples
        assert seen == numbers(dataset, 3, 0) + numbers(dataset, 3, 1)
        assert pool_used(client) == 0
        assert not pickle.loads(pickle.dumps(data))._pools
    del data, own, client
    gc.collect()
    assert not cuda.locked  # unlocked, once the session has let go of it


def test_memory_that_cuda_cannot_lock(shm, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "cudart", lambda: Cuda(error=2))
    with pytest.raises(RuntimeError, match="error 2"):
        weka.torch.pinned_pool(shm)


@pytest.mark.parametrize("kind", ["shm", "tcp"])
def test_pin_memory_without_cuda(kind, dataset):
    with connect(kind) as client:
        data = weka.torch.IterableDataset(client.dataset(dataset.name), 16, seed=4, decode=number, pin_memory=True)
        loader = torch.utils.data.DataLoader(data, batch_size=None)
        assert [int(n) for samples, _ in loader for n in samples] == numbers(dataset, 4, 0)
        loader = torch.utils.data.DataLoader(data, batch_size=None, num_workers=2)
        assert [int(n) for samples, _ in loader for n in samples] == numbers(dataset, 4, 0)

# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Files of an appliance as PyTorch datasets.

    dataset = weka.torch.IterableDataset(client.dataset("imagenet"), batch_size=256, seed=1, decode=decode_jpeg)
    loader = torch.utils.data.DataLoader(dataset, batch_size=None)
    for epoch in range(90):
        dataset.set_epoch(epoch)
        for images, labels in loader:       # batches that the appliance read ahead
            ...

    dataset = weka.torch.Dataset(client, paths, decode=decode_jpeg, targets=labels)
    loader = torch.utils.data.DataLoader(dataset, batch_size=256, shuffle=True)

A batch of the second loader is one submission: open, read and close of all of its files in one round
trip.
"""

import array
import collections
import concurrent.futures
import mmap
import operator
import os
import threading
import weakref

import torch
import torch.distributed
import torch.utils.data

import weka

from . import _cursor

__all__ = ["Dataset", "IterableDataset", "pinned_pool"]

_POOL_UNIT = 2 << 20


def _as_tensor(item):
    """The file's bytes, not copied: uint8, as long as the file."""
    return torch.frombuffer(item, dtype=torch.uint8) if len(item) else torch.empty(0, dtype=torch.uint8)


def _page_lock(memory):
    """CUDA copies from page-locked memory without a copy of its own before.  Without CUDA: nothing."""
    if not torch.cuda.is_available():
        return
    address = torch.frombuffer(memory, dtype=torch.uint8).data_ptr()
    runtime = torch.cuda.cudart()
    error = int(runtime.cudaHostRegister(address, len(memory), 0))
    if error:
        raise RuntimeError("CUDA cannot lock %d bytes of memory: error %d" % (len(memory), error))
    weakref.finalize(memory, runtime.cudaHostUnregister, address)


def pinned_pool(client, bytes=64 << 20):
    """A weka.Pool of this thread's session, in page-locked memory where there is CUDA.

    Tensors over its batches need no pin_memory(): tensor.to("cuda", non_blocking=True) copies from
    where the appliance has written.  bytes is rounded up to 2 MiB.
    """
    bytes = max(-(-operator.index(bytes) // _POOL_UNIT), 1) * _POOL_UNIT
    fd = os.memfd_create("weka-pool", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, bytes)
        memory = mmap.mmap(fd, bytes)
        _page_lock(memory)
        return client.pool_add(memory, fd=fd)
    finally:
        os.close(fd)


class _Threads:
    """Threads that decode; a child of a fork has none of its parent's."""

    def __init__(self, count):
        self.count = operator.index(count)
        if self.count < 0:
            raise ValueError("threads must not be negative")
        self._pool = None  # (the process it is of, its threads)

    def map(self, decode, items):
        """Begins, and returns an iterator of the results, in order."""
        if not self.count or len(items) < 2:
            return map(decode, items)
        if self._pool is None or self._pool[0] != os.getpid():
            self._pool = (os.getpid(), concurrent.futures.ThreadPoolExecutor(self.count, "weka-decode"))
        return self._pool[1].map(decode, items)

    def __getstate__(self):
        return dict(self.__dict__, _pool=None)


class Dataset(torch.utils.data.Dataset):
    """A map-style dataset; sample i is the file paths[i], or sample i of a weka.Dataset.

        Dataset(client, paths, targets=labels)
        Dataset(dataset)                        # targets are the labels, if it has classes

    decode(item) makes a sample of a weka.Item, a buffer of the file's bytes; without it a sample is
    a uint8 tensor over the item, and keeps the batch's memory in the client's pool as long as it
    lives.  threads: so many threads of each process decode, as far as decode() lets go of the GIL.
    targets[i] makes sample i a pair (sample, target).

    With worker processes, forked or spawned, each connects by itself; spawned ones get the client
    pickled (weka.Client: not with key=).  A file that cannot be read raises its OSError.
    """

    def __init__(self, client, paths=None, *, decode=None, targets=None, threads=0):
        self.client = client
        if isinstance(client, weka.Dataset) != (paths is None):
            raise TypeError("Dataset() needs a client and paths, or a weka.Dataset")
        self.paths = paths if isinstance(paths, (list, tuple, type(None))) else list(paths)
        self.decode = decode or _as_tensor
        self.targets = targets
        self._threads = _Threads(threads)
        if targets is not None and len(targets) != len(self):
            raise ValueError("%d targets for %d samples" % (len(targets), len(self)))

    def __len__(self):
        return len(self.client if self.paths is None else self.paths)

    def __getitem__(self, index):
        return self.__getitems__([index])[0]

    def __getitems__(self, indices):
        """The samples of all indices, in their order, with one submission."""
        indices = [operator.index(i) for i in indices]
        targets = self.targets
        if self.paths is None:
            indices = [i + len(self) if i < 0 else i for i in indices]
            batch = self.client.read_batch(indices)
            if targets is None and self.client.classes:
                targets = dict(zip(indices, batch.labels))
        else:
            batch = self.client.read_batch([self.paths[i] for i in indices])
        samples = list(self._threads.map(self.decode, list(batch)))
        if targets is None:
            return samples
        return [(sample, targets[i]) for sample, i in zip(samples, indices)]


class IterableDataset(torch.utils.data.IterableDataset):
    """One rank's way through the epochs of a weka.Dataset; it yields whole batches.

    Use it with DataLoader(dataset, batch_size=None), or iterate over it directly.  A batch is a pair
    (samples, labels), or samples alone when the dataset has no classes.  labels is an int64 tensor.
    decode(item) makes a sample of a weka.Item, in so many threads of each process, and collate(list)
    a batch of samples (torch's default_collate).  Without decode, samples is a list of uint8 tensors
    over the items, which keep the batch's memory in the client's pool as long as they live.

    Every sample comes once an epoch over all ranks, in an order that only seed and epoch decide.
    rank and world are those of torch.distributed if it is initialised before, and else 0 and 1.
    Step s of all ranks is the next world * batch_size samples.  The batches of the last step may
    differ by one sample, and those without samples are left out, unless drop_last leaves it out.

    Worker processes, forked or spawned: worker w of W yields the rank's batches w, w + W, w + 2 W, ...
    DataLoader takes from its workers in turn, so the batches, and their order, are those of 0 workers.

    state_dict() is the place after the batch that was yielded last; load_state_dict() goes on there,
    with another world, batch_size or number of workers, too.  With a DataLoader that has workers, say
    how many batches it has yielded: state_dict(batches=n).  A StatefulDataLoader of torchdata, which
    keeps the state of each worker, goes on with as many workers and ranks as before.

    weights: draw samples by weight: an int for each class, or each sample, or "balanced"; the epoch
    has then `length` positions (None: as many as there are samples).  See weka.Dataset.stream().

    pin_memory: without workers, batches are read into pinned_pool(dataset.client, pool_bytes), so that
    tensors over the items are page-locked where there is CUDA.  Worker processes do without, since
    what they make is copied to the main process: use DataLoader(pin_memory=True) there.

    A sample that cannot be read raises its OSError, with the name of its file.
    """

    def __init__(self, dataset, batch_size, *, seed=0, shuffle=True, drop_last=False, decode=None, collate=None,
                 threads=0, ahead=4, rank=None, world=None, pin_memory=False, pool_bytes=64 << 20, weights=None,
                 length=None):
        super().__init__()
        distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        self.dataset = dataset
        self.batch_size = operator.index(batch_size)
        self.seed = operator.index(seed)
        self.shuffle = bool(shuffle)
        self.drop_last = bool(drop_last)
        self.decode = decode or _as_tensor
        self.collate = collate or (torch.utils.data.default_collate if decode else list)
        self.ahead = ahead
        self.world = operator.index(torch.distributed.get_world_size() if world is None and distributed else world or 1)
        self.rank = operator.index(torch.distributed.get_rank() if rank is None and distributed else rank or 0)
        self._threads = _Threads(threads)
        self.pin_memory = bool(pin_memory)
        self.pool_bytes = operator.index(pool_bytes)
        self._pools = {}  # of this process: by thread
        self.weights = weights if weights is None or isinstance(weights, str) else array.array("I", weights)
        self.length = len(dataset) if length is None else operator.index(length)
        # Shared with workers that stay from epoch to epoch: the epoch, and the position where it begins.
        self._place = torch.zeros(2, dtype=torch.int64).share_memory_()
        self._begun = 0  # the position from which `_yielded` counts
        self._yielded = 0  # batches of this process's worker since then
        self._worker = (0, 1)
        self._resumed = None  # the state of a worker
        with self._stream(None, self.rank, self.world, pool=None) as stream:  # every wrong argument is told at once
            self._cursors = _cursor.Cursors(stream.cursor(), self.length)
        self.stats = None  # weka.Stream.stats() of the last stream

    @property
    def epoch(self):
        return int(self._place[0])

    def set_epoch(self, epoch):
        """The next iterator is of this epoch, from its begin unless load_state_dict() has chosen a place in it."""
        epoch = operator.index(epoch)
        if epoch < 0:
            raise ValueError("epoch must not be negative")
        if epoch != self.epoch:
            self._place[0], self._place[1] = epoch, 0
            self._resumed, self._begun, self._yielded = None, 0, 0

    def __len__(self):
        """Steps that are left of the epoch, from where the next iterator begins."""
        return self._steps(int(self._place[1]))

    def _steps(self, position):
        left, each = self.length - position, self.world * self.batch_size
        return left // each if self.drop_last else -(-left // each)

    def __getstate__(self):
        return dict(self.__dict__, _pools={})

    def _pool(self):
        """This thread's pool of page-locked memory, or None."""
        if not self.pin_memory or torch.utils.data.get_worker_info():
            return None
        key = (os.getpid(), threading.get_ident())
        if key not in self._pools:
            self._pools[key] = pinned_pool(self.dataset.client, self.pool_bytes)
        return self._pools[key]

    def _stream(self, position, rank, world, **kwargs):
        """A stream from a position of the epoch on; None: its begin."""
        if "pool" not in kwargs:
            kwargs["pool"] = self._pool()
        if self.weights is not None or self.length != len(self.dataset):
            kwargs.update(weights=self.weights, length=self.length)
        place = None if position is None else self._cursors.build(self.epoch, position)
        return self.dataset.stream(batch=self.batch_size, seed=self.seed, epoch=self.epoch, rank=rank, world=world,
                                   shuffle=self.shuffle, cursor=place, **{"ahead": self.ahead, **kwargs})

    def _batches(self, begin, first, worker, workers):
        """Yields (batches of this worker, weka.SampleBatch), from its batch `first` on.

        As long as there is a full step for each worker, a worker reads as one of world * workers
        ranks does.  The steps that are left are dealt out one by one.
        """
        each = self.world * self.batch_size
        if workers == 1:
            with self._stream(begin + first * each, self.rank, self.world, drop_last=self.drop_last) as stream:
                for n, batch in enumerate(stream, first + 1):
                    yield n, batch, stream
            return
        rounds = (self.length - begin) // (each * workers)
        if first < rounds:
            with self._stream(begin + first * workers * each, worker * self.world + self.rank, self.world * workers,
                              drop_last=True) as stream:
                for n, batch in enumerate(stream, first + 1):
                    yield n, batch, stream
        step = rounds * workers + worker
        if first <= rounds and step < self._steps(begin):
            with self._stream(begin + step * each, self.rank, self.world, ahead=1) as stream:
                yield rounds + 1, next(stream), stream

    def _begin(self, batch):
        """Begins to decode; returns what _finish() needs."""
        labels = torch.frombuffer(batch.labels, dtype=torch.int32).to(torch.int64) if self.dataset.classes else None
        return self._threads.map(self.decode, list(batch)), labels

    def _finish(self, decoding, labels):
        samples = self.collate(list(decoding))
        return samples if labels is None else (samples, labels)

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        begin, first = int(self._place[1]), 0
        if self._resumed is not None:
            begin, first = self._resume(worker, workers)
        self._worker, self._begun, self._yielded = (worker, workers), begin, first
        return self._iterate(begin, first, worker, workers)

    def _iterate(self, begin, first, worker, workers):
        waiting = collections.deque()  # with threads, a batch is decoded while the one before it is used
        n = first
        for n, batch, stream in self._batches(begin, first, worker, workers):
            if len(batch):  # else it is the last one
                waiting.append((n, *self._begin(batch)))
            del batch
            if len(waiting) > (1 if self._threads.count else 0):
                self._yielded, *decoding = waiting.popleft()
                self.stats = stream.stats()
                yield self._finish(*decoding)
                del decoding
        while waiting:
            self._yielded, *decoding = waiting.popleft()
            yield self._finish(*decoding)
            del decoding
        self._yielded = n

    # ---- the place in the epoch

    def state_dict(self, batches=None):
        """The place after so many batches of the DataLoader's; None: after those that this process has yielded."""
        worker, workers = self._worker
        if batches is not None:
            worker, workers = 0, 1
            begun, count = int(self._place[1]), operator.index(batches)
            if not 0 <= count <= self._steps(begun):
                raise ValueError("batches must be 0 to %d, the steps of the epoch" % self._steps(begun))
        else:
            begun, count = self._begun, self._yielded
        if workers == 1:
            begun, count = min(begun + count * self.world * self.batch_size, self.length), 0
        return {"cursor": self._cursors.build(self.epoch, begun), "batches": count,
                "worker": worker, "workers": workers, "world": self.world, "batch_size": self.batch_size}

    def load_state_dict(self, state):
        """Goes on where state_dict() was called.  ValueError: it is of another dataset, version, seed or order."""
        epoch, position = self._cursors.parse(state["cursor"])
        self._resumed = state if state["workers"] > 1 else None
        if self._resumed is None:
            self._place[0], self._place[1] = epoch, position
        elif (state["world"], state["batch_size"]) != (self.world, self.batch_size):
            raise ValueError("a worker's state goes on with the same world and batch_size only; "
                             "state_dict(batches=...) of the main process with any")
        else:
            self._place[0] = epoch
        self._begun, self._yielded = position, 0

    def _resume(self, worker, workers):
        state, self._resumed = self._resumed, None
        if (state["worker"], state["workers"]) != (worker, workers):
            raise ValueError("the state is of worker %(worker)d of %(workers)d" % state)
        return self._cursors.parse(state["cursor"])[1], state["batches"]

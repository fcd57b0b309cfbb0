# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Files of an appliance as a PyTorch dataset.

    dataset = weka.torch.Dataset(client, paths, decode=decode_jpeg, targets=labels)
    loader = torch.utils.data.DataLoader(dataset, batch_size=256, shuffle=True)

A batch of the loader is one submission: open, read and close of all of its files in one round trip.
"""

import concurrent.futures
import operator
import os

import torch
import torch.utils.data

__all__ = ["Dataset"]


def _as_tensor(item):
    """The file's bytes, not copied: uint8, as long as the file."""
    return torch.frombuffer(item, dtype=torch.uint8) if len(item) else torch.empty(0, dtype=torch.uint8)


class Dataset(torch.utils.data.Dataset):
    """A map-style dataset; sample i is the file paths[i].

    decode(item) makes a sample of a weka.Item, a buffer of the file's bytes; without it a sample is
    a uint8 tensor over the item, and keeps the batch's memory in the client's pool as long as it
    lives.  threads: so many threads of each process decode, as far as decode() lets go of the GIL.
    targets[i] makes sample i a pair (sample, target).

    With worker processes, forked or spawned, each connects by itself; spawned ones get the client
    pickled (weka.Client: not with key=).  A file that cannot be read raises its OSError.
    """

    def __init__(self, client, paths, *, decode=None, targets=None, threads=0):
        self.client = client
        self.paths = paths if isinstance(paths, (list, tuple)) else list(paths)
        self.decode = decode or _as_tensor
        self.targets = targets
        self.threads = operator.index(threads)
        self._pool = None  # (the process it is of, its threads)
        if targets is not None and len(targets) != len(self.paths):
            raise ValueError("%d targets for %d paths" % (len(targets), len(self.paths)))
        if self.threads < 0:
            raise ValueError("threads must not be negative")

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return self.__getitems__([index])[0]

    def __getitems__(self, indices):
        """The samples of all indices, in their order, with one submission."""
        indices = [operator.index(i) for i in indices]
        batch = self.client.read_batch([self.paths[i] for i in indices])
        if self.threads and len(batch) > 1:
            samples = list(self._threads().map(self.decode, list(batch)))
        else:
            samples = [self.decode(item) for item in batch]
        if self.targets is None:
            return samples
        return [(sample, self.targets[i]) for sample, i in zip(samples, indices)]

    def _threads(self):
        if self._pool is None or self._pool[0] != os.getpid():  # a child has none of its parent's threads
            self._pool = (os.getpid(), concurrent.futures.ThreadPoolExecutor(self.threads, "weka-decode"))
        return self._pool[1]

    def __getstate__(self):
        return dict(self.__dict__, _pool=None)

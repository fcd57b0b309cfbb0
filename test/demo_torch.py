# SPDX-License-Identifier: BSD-2-Clause-Patent
"""A PyTorch epoch over an appliance, beside the same files through a DataLoader on local files; every
byte is compared.

    demo_torch.py ADDRESS KEYFILE /PREFIX LOCAL_DIRECTORY EPOCHS
"""
import hashlib
import statistics
import sys
import time

import torch
import torch.utils.data

import weka.torch

address, key, prefix, local, epochs = sys.argv[1:]
dataset = weka.Client(address, key_file=key, pool_bytes=256 << 20).create_dataset("demo", prefix, quick=True)
paths = [local + dataset.sample(i).path[len(prefix):] for i in range(len(dataset))]


class LocalFiles(torch.utils.data.Dataset):
    def __len__(self):
        return len(paths)

    def __getitem__(self, index):
        with open(paths[index], "rb") as f:
            return torch.frombuffer(bytearray(f.read() or b"\0"), dtype=torch.uint8)


def digests(samples):
    return [hashlib.sha256(sample.numpy()).digest() for sample in samples]


def samples_of(batch):
    return batch[0] if dataset.classes else batch


def compare():
    """The bytes of every sample, in the order of an epoch."""
    batches = weka.torch.IterableDataset(dataset, 64, seed=1)
    place = 0
    for batch in batches:
        numbers = [weka.order(len(dataset), 1, 0, place + i) for i in range(len(samples_of(batch)))]
        files = [open(paths[n], "rb").read() for n in numbers]
        if digests(samples_of(batch)) != [hashlib.sha256(data).digest() for data in files]:
            sys.exit("demo: a sample is not what its file is")
        place += len(numbers)
    if place != len(dataset):
        sys.exit("demo: %d samples of %d came" % (place, len(dataset)))


def rate(make):
    """Samples a second: the median of the epochs."""
    rates = []
    for epoch in range(int(epochs)):
        begin, samples, loader = time.perf_counter(), 0, make(epoch)
        for batch in loader:
            samples += len(batch)
        assert samples == len(dataset)
        rates.append(samples / (time.perf_counter() - begin))
    return statistics.median(rates)


def of_the_appliance(epoch):
    batches = weka.torch.IterableDataset(dataset, 64, seed=1)
    batches.set_epoch(epoch)
    return map(samples_of, torch.utils.data.DataLoader(batches, batch_size=None, collate_fn=list))


def of_local_files(workers):
    return lambda epoch: torch.utils.data.DataLoader(LocalFiles(), batch_size=64, shuffle=True, num_workers=workers,
                                                     collate_fn=list)


compare()
print("  %-60s %9s" % ("DataLoader, batches of 64", "samples/s"))
for name, make in (("local files, from the page cache, 0 workers", of_local_files(0)),
                   ("local files, from the page cache, 2 workers", of_local_files(2)),
                   ("appliance, shared memory, 0 workers", of_the_appliance)):
    print("  %-60s %9s" % (name, "{:,.0f}".format(rate(make))))

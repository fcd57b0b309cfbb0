# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Samples a second of a PyTorch DataLoader, over the appliance with 0 workers (files chosen by a
sampler, an epoch stream, an epoch stream without copying its samples into one tensor), and over local
files (page cache warm) with 0 and 2 workers, in turn; nothing is decoded.

    python_loader.py ADDRESS KEYFILE LOCAL_DIRECTORY [BYTES [FILES [ROUNDS]]]
"""
import os
import statistics
import sys
import time

import torch
import torch.utils.data

import weka.torch

address, key, local = sys.argv[1:4]
size, count, rounds = (int(n) for n in (sys.argv[4:] + ["4096", "8000", "5"][len(sys.argv) - 4:]))
client = weka.Client(address, key_file=key, pool_bytes=256 << 20)
names = [f"loader-{size}/{n}" for n in range(count)]
for make in (lambda d: os.makedirs(f"{local}/{d}", exist_ok=True), lambda d: client.mkdir("/" + d)):
    try:
        make(f"loader-{size}")
    except FileExistsError:
        pass
client.put_batch([("/" + name, os.urandom(size)) for name in names])
for name in names:
    with open(f"{local}/{name}", "wb") as f:
        f.write(os.urandom(size))


class Local(torch.utils.data.Dataset):
    """The same over local files."""

    def __len__(self):
        return count

    def __getitem__(self, index):
        with open(f"{local}/{names[index]}", "rb") as f:
            return torch.frombuffer(bytearray(f.read()), dtype=torch.uint8)


def rate(dataset, workers):
    begin, samples = time.perf_counter(), 0
    if isinstance(dataset, torch.utils.data.IterableDataset):
        dataset.set_epoch(dataset.epoch + 1)
        loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=workers)
    else:
        loader = torch.utils.data.DataLoader(dataset, batch_size=256, shuffle=True, num_workers=workers)
    for batch in loader:
        samples += len(batch)
    assert samples == count
    return samples / (time.perf_counter() - begin)


listed = client.create_dataset(f"loader-{size}", f"/loader-{size}")
kinds = {
    "an epoch of the appliance, 0 workers": (weka.torch.IterableDataset(listed, 256, collate=torch.stack), 0),
    "an epoch of the appliance, not copied": (weka.torch.IterableDataset(listed, 256), 0),
    "the appliance, 0 workers": (weka.torch.Dataset(client, ["/" + name for name in names]), 0),
    "local files, 0 workers": (Local(), 0),
    "local files, 2 workers": (Local(), 2),
}
rates = {kind: [] for kind in kinds}
for _ in range(rounds):
    for kind, (dataset, workers) in kinds.items():
        rates[kind].append(rate(dataset, workers))
for kind, of in rates.items():
    print(f"{kind}, {size} bytes: {statistics.median(of):,.0f} samples/s ({min(of):,.0f} to {max(of):,.0f})")

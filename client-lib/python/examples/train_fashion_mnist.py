#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause-Patent
"""A small convolutional network, trained on the CPU straight from an appliance; it can be stopped in
the middle of an epoch, and goes on there.

    apt-get download dataset-fashion-mnist && dpkg-deb -x dataset-fashion-mnist_*.deb fashion
    export WEKA_ADDRESS=shm:/run/weka.sock WEKA_KEY_FILE=/etc/weka/key
    train_fashion_mnist.py import fashion/usr/share/datasets/fashion-mnist        # 70,000 small files
    train_fashion_mnist.py train --epochs 3 --checkpoint fashion.pt               # as often as it was stopped

    train_fashion_mnist.py import ... --local DIR         # the same files in a local directory
    train_fashion_mnist.py train --local DIR              # ... and trained from there, in the same order

A file is one image: 784 bytes, one a pixel.  Its class is the name of its directory.
"""
import argparse
import gzip
import os
import struct
import sys
import time

import torch
import torch.utils.data

import weka
import weka.torch

TOP = "/fashion-mnist"
CLASSES = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")
PIXELS = 28 * 28
SEED = 1


# ---- import: two IDX files become a file for each image


def read_idx(path):
    """The items of an IDX file of bytes, and how many bytes one has."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as f:
        data = f.read()
    dimensions = data[3]
    shape = struct.unpack(">%dI" % dimensions, data[4:4 + 4 * dimensions])
    size = 1
    for n in shape[1:]:
        size *= n
    return memoryview(data)[4 + 4 * dimensions:], size


def images(source, part, limit):
    """Yields (path below the top, bytes of the image)."""
    found = {name.split("-")[0] + name.split("-")[1]: os.path.join(source, name)
             for name in os.listdir(source) if "-ubyte" in name}
    prefix = {"train": "train", "test": "t10k"}[part]
    pixels, size = read_idx(found[prefix + "images"])
    labels, _ = read_idx(found[prefix + "labels"])
    for n, label in enumerate(labels[:limit]):
        yield "%s/%s/%05d.raw" % (part, CLASSES[label], n), pixels[n * size:(n + 1) * size]


def make_dirs(make):
    for path in ["", *("/" + part + below for part in ("train", "test") for below in ("", *("/" + c for c in CLASSES)))]:
        try:
            make(path)
        except FileExistsError:
            pass


def import_images(args):
    files = [f for part in ("train", "test") for f in images(args.source, part, args.limit)]
    if args.local:
        make_dirs(lambda path: os.makedirs(args.local + path))
        for path, data in files:
            with open(os.path.join(args.local, path), "wb") as f:
                f.write(data)
        return print("%d files in %s" % (len(files), args.local))
    client = weka.Client()
    make_dirs(lambda path: client.mkdir(TOP + path))
    for first in range(0, len(files), 1024):
        client.put_batch([(TOP + "/" + path, data) for path, data in files[first:first + 1024]])
    for part in ("train", "test"):
        with client.create_dataset("fashion-" + part, TOP + "/" + part) as made:
            print("%s, version %d: %d samples, content %s" % (made.name, made.version, len(made), made.content[:16]))


# ---- the same epochs from local files


class LocalFiles(torch.utils.data.IterableDataset):
    """Files of a directory, in the order in which weka.torch.IterableDataset has them; one rank."""

    def __init__(self, directory, batch_size, shuffle=True):
        self.files = [(os.path.join(directory, name, file), label) for label, name in enumerate(sorted(CLASSES))
                      for file in sorted(os.listdir(os.path.join(directory, name)))]
        self.batch_size, self.shuffle = batch_size, shuffle
        self.epoch, self.begin = 0, 0

    def set_epoch(self, epoch):
        if epoch != self.epoch:
            self.epoch, self.begin = epoch, 0

    def __iter__(self):
        count = len(self.files)
        for first in range(self.begin, count, self.batch_size):
            places = range(first, min(first + self.batch_size, count))
            numbers = [weka.order(count, SEED, self.epoch, p) for p in places] if self.shuffle else places
            samples = []
            for path, _ in (self.files[n] for n in numbers):
                with open(path, "rb") as f:
                    samples.append(torch.frombuffer(bytearray(f.read()), dtype=torch.uint8))
            yield torch.stack(samples), torch.tensor([self.files[n][1] for n in numbers])

    def state_dict(self, batches):
        return {"epoch": self.epoch, "begin": min(self.begin + batches * self.batch_size, len(self.files))}

    def load_state_dict(self, state):
        self.epoch, self.begin = state["epoch"], state["begin"]


def dataset_of(args, part, shuffle):
    if args.local:
        return LocalFiles(os.path.join(args.local, part), args.batch, shuffle)
    return weka.torch.IterableDataset(weka.Client().dataset("fashion-" + part), args.batch, seed=SEED, shuffle=shuffle,
                                      collate=torch.stack)


# ---- training


def network():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(8, 16, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(16 * 5 * 5, len(CLASSES)))


def prepared(pixels):
    return pixels.view(-1, 1, 28, 28).float().div_(255)


def timed(loader, clock):
    """Yields the loader's batches; clock[0] counts the seconds that it takes to get them."""
    batches = iter(loader)
    while True:
        begin = time.perf_counter()
        batch = next(batches, None)
        clock[0] += time.perf_counter() - begin
        if batch is None:
            return
        yield batch


def accuracy(model, loader):
    right = count = 0
    with torch.no_grad():
        for pixels, labels in loader:
            right += int((model(prepared(pixels)).argmax(1) == labels).sum())
            count += len(labels)
    return right / count


def save(args, model, optimizer, dataset, batches):
    """Atomically, so that a stop in the middle leaves the checkpoint before."""
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                "dataset": dataset.state_dict(batches=batches)}, args.checkpoint + ".new")
    os.rename(args.checkpoint + ".new", args.checkpoint)


def resume(args, model, optimizer, dataset):
    if not args.checkpoint or not os.path.exists(args.checkpoint):
        return 0
    saved = torch.load(args.checkpoint)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    dataset.load_state_dict(saved["dataset"])
    print("going on in epoch %d" % dataset.epoch)
    return dataset.epoch


def one_epoch(args, model, optimizer, dataset, loader, left):
    """Returns (samples, seconds, seconds in which it waited for batches, batches)."""
    begin, clock, samples, n = time.perf_counter(), [0], 0, 0
    for n, (pixels, labels) in enumerate(timed(loader, clock), 1):
        loss = torch.nn.functional.cross_entropy(model(prepared(pixels)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        samples += len(labels)
        if args.checkpoint and (n % args.save_every == 0 or n == left):
            save(args, model, optimizer, dataset, n)
        if n == left:
            break
    return samples, time.perf_counter() - begin, clock[0], n


def train(args):
    torch.manual_seed(SEED)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    dataset = dataset_of(args, "train", True)
    loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=args.workers)
    test = torch.utils.data.DataLoader(dataset_of(args, "test", False), batch_size=None)
    left = args.stop_after
    for epoch in range(resume(args, model, optimizer, dataset), args.epochs):
        dataset.set_epoch(epoch)
        samples, seconds, waited, batches = one_epoch(args, model, optimizer, dataset, loader, left)
        line = "epoch %d: %d samples, %.0f samples/s, waited %.1f %% of the time" % (
            epoch, samples, samples / seconds, 100 * waited / seconds)
        stats = getattr(dataset, "stats", None)
        if stats:
            line += " (for the appliance %.1f %%: %s)" % (100 * stats["waited_share"], stats["verdict"])
        left = left and left - batches
        if left == 0:
            return print(line + "; stopped")
        print(line + "; accuracy %.4f" % accuracy(model, test), flush=True)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("import", help="write a file for each image")
    one.add_argument("source", help="the directory of *-ubyte.gz")
    one.add_argument("--limit", type=int, help="so many images of each part")
    one.set_defaults(run=import_images)
    two = commands.add_parser("train", help="train, and say how fast and how well")
    two.add_argument("--epochs", type=int, default=1)
    two.add_argument("--batch", type=int, default=64)
    two.add_argument("--workers", type=int, default=0, help="of the DataLoader")
    two.add_argument("--checkpoint", help="a file: where to go on, if it is there")
    two.add_argument("--save-every", type=int, default=200, help="batches")
    two.add_argument("--stop-after", type=int, help="batches of this run")
    two.set_defaults(run=train)
    for command in (one, two):
        command.add_argument("--local", metavar="DIR", help="local files instead of the appliance")
    args = parser.parse_args(arguments)
    args.run(args)


if __name__ == "__main__":
    sys.exit(main())

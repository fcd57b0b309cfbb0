# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Reads a directory of classes as torchvision's ImageFolder and a DataLoader with workers do:

    mount_folder.py DIR WORKERS EPOCHS [make CLASSES FILES]

A class is a directory; samples are numbered in the order of their sorted paths.  An epoch shuffles them
by its number; worker w of W reads the batches w, w + W, ...; the batches come in order.  Prints the
number of samples and a digest of all labels and bytes, in order, for each epoch."""
import hashlib
import multiprocessing
import os
import random
import sys

BATCH = 16


def make(root, classes, files):
    rand = random.Random(7)
    for c in range(classes):
        os.makedirs(f"{root}/class {c:03d}")
        for i in range(files):
            with open(f"{root}/class {c:03d}/{rand.randrange(1 << 40):010x}.jpeg", "wb") as f:
                f.write(rand.randbytes(rand.choice([1, 900, 4096, 20000, 33000, 120000])))


def samples_of(root):
    classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
    found = []
    for label, name in enumerate(classes):
        for where, _, names in sorted(os.walk(os.path.join(root, name), followlinks=True)):
            found += [(os.path.join(where, n), label) for n in sorted(names) if n.lower().endswith(".jpeg")]
    return found


def load(path):
    with open(path, "rb") as f:
        return f.read()


def worker(samples, batches, number, count, pipe):
    for batch in batches[number::count]:
        pipe.send([(samples[i][1], load(samples[i][0])) for i in batch])
    pipe.close()


def epoch(samples, number, workers):
    order = list(range(len(samples)))
    random.Random(number).shuffle(order)
    batches = [order[i:i + BATCH] for i in range(0, len(order), BATCH)]
    pipes, processes = [], []
    for w in range(workers):
        here, there = multiprocessing.Pipe(False)
        processes.append(multiprocessing.Process(target=worker, args=(samples, batches, w, workers, there)))
        processes[-1].start()
        there.close()
        pipes.append(here)
    digest, count = hashlib.sha256(), 0
    for b in range(len(batches)):
        for label, data in pipes[b % workers].recv():
            digest.update(b"%d %d " % (label, len(data)) + data)
            count += 1
    for p in processes:
        p.join()
    if any(p.exitcode for p in processes):
        raise SystemExit("a worker failed")
    return f"{count} samples {digest.hexdigest()[:16]}"


if __name__ == "__main__":
    root, workers, epochs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if len(sys.argv) > 4:
        make(root, int(sys.argv[5]), int(sys.argv[6]))
    found = samples_of(root)
    for number in range(epochs):
        print(f"epoch {number}: {epoch(found, number, workers)}")

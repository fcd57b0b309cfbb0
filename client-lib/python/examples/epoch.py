#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause-Patent
"""A data loader's inner loop: all files of a directory, in random order, in batches of 256, two
batches on their way while a third is being used.

    epoch.py ADDRESSES KEYFILE DIRECTORY
"""
import collections
import random
import stat
import sys

import weka

BATCH = 256
AHEAD = 2


def batches(client, paths):
    """Yields the batches of an epoch, in order; each is asked for two ahead."""
    waiting = collections.deque()
    for first in range(0, len(paths), BATCH):
        waiting.append(client.submit_batch(paths[first:first + BATCH]))
        if len(waiting) > AHEAD:
            yield waiting.popleft()
    yield from waiting


def main(addresses, key_file, directory):
    with weka.Client(addresses, key_file=key_file) as client:
        paths = [directory + "/" + name for name, about in client.scandir(directory) if stat.S_ISREG(about.st_mode)]
        random.seed(1)
        random.shuffle(paths)
        files = size = 0
        for batch in batches(client, paths):
            with batch:  # its memory goes back at the end
                for item in batch:  # here training would look at memoryview(item)
                    files += 1
                    size += len(item)
        print(f"{files} files, {size} bytes")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: epoch.py ADDRESSES KEYFILE DIRECTORY")
    main(*sys.argv[1:])

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Writes a byte over blocks of a file that may be the drive of a running appliance.

    overwrite.py FILE BYTE                                all blocks but its ends and the headers of zones
    overwrite.py FILE BYTE BLOCK COUNT [BLOCK COUNT...]   these blocks of 4 KiB

The appliance writes past the page cache.  A write of ours through it leaves dirty pages, which
the kernel may be unable to drop when the appliance writes the same blocks.  Its next fsync() of
the file fails with EIO then, and the appliance loses the drive: so we write as it does.
"""
import mmap
import os
import sys

BLOCK = 4096
STEP = 32 * BLOCK  # at least a zone: of smaller ones, headers are overwritten as well


def opened(path):
    """As the appliance has it: past the page cache, if the file system can."""
    try:
        return os.open(path, os.O_RDWR | os.O_DIRECT)
    except OSError:
        return os.open(path, os.O_RDWR)


def main(path, byte, *blocks):
    fd = opened(path)
    if blocks:
        runs = [(int(at) * BLOCK, int(count) * BLOCK) for at, count in zip(blocks[::2], blocks[1::2], strict=True)]
    else:
        starts = range(4 << 20, os.fstat(fd).st_size - (1 << 20), STEP)
        runs = [(at + BLOCK, STEP - 2 * BLOCK) for at in starts]
    memory = mmap.mmap(-1, max(size for _, size in runs))  # O_DIRECT wants whole pages
    memory[:] = bytes([int(byte)]) * len(memory)
    for at, size in runs:
        if os.pwrite(fd, memoryview(memory)[:size], at) != size:
            sys.exit(f"{path}: a write at byte {at} was cut short")


main(*sys.argv[1:])

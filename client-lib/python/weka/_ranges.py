# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Reads the parts of a checkpoint into tensors: which bytes of which file go where."""

import math

from . import _state

SMALL = 64 << 10  # ranges up to here are read together
_GROUP = 4 << 20  # bytes of one batch of ranges
_BLOCK = 4096


def _runs(piece, begin, length, itemsize):
    """The contiguous runs of the block where a saved piece and a wanted one meet.

    Yields (byte in the saved piece, byte in the wanted one, bytes)."""
    start, size = piece["start"], piece["length"]
    low = [max(a, b) for a, b in zip(start, begin)]
    high = [min(a + n, b + m) for a, n, b, m in zip(start, size, begin, length)]
    if any(h <= l for l, h in zip(low, high)):
        return
    inner = len(low)  # from this dimension on, all of both
    while inner > 0 and all(high[i] - low[i] == size[i] == length[i] for i in range(inner, len(low))):
        inner -= 1
    run = math.prod(high[i] - low[i] for i in range(inner, len(low)))
    index = low[:inner]
    while True:
        at = index + low[inner:]
        source = target = 0
        for i, n in enumerate(at):
            source = source * size[i] + n - start[i]
            target = target * length[i] + n - begin[i]
        yield source * itemsize, target * itemsize, run * itemsize
        for i in reversed(range(inner)):
            index[i] += 1
            if index[i] < high[i]:
                break
            index[i] = low[i]
        else:
            return


def ranges(folder, pieces, shard, tensor):
    """What must be read for a wanted tensor: (path, offset, memory) of each range."""
    memory, filled = _state.memory(tensor) if tensor.numel() else None, set()
    for piece in pieces:
        place = (tuple(piece["start"]), tuple(piece["length"]))
        if memory is None or place in filled:  # several ranks have saved the same part
            continue
        filled.add(place)
        for source, target, size in _runs(piece, shard.start, tensor.shape, tensor.element_size()):
            yield "%s/%s" % (folder, piece["file"]), piece["offset"] + source, memory[target:target + size]


def read(client, wanted):
    """Reads ranges: small ones many at a time, large ones into their place."""
    batch, size = [], 0
    for path, offset, memory in wanted:
        if len(memory) > SMALL:
            if client.readinto(path, memory, offset) != len(memory):
                raise EOFError("%s is shorter than the checkpoint says" % path)
            continue
        batch.append((path, offset, memory))
        size += -(-len(memory) // _BLOCK) * _BLOCK + _BLOCK
        if size > _GROUP:
            _read_batch(client, batch)
            batch, size = [], 0
    if batch:
        _read_batch(client, batch)


def _read_batch(client, batch):
    paths, offsets, memories = zip(*batch)
    with client.read_batch(paths, offsets, [len(memory) for memory in memories]) as items:
        for path, memory, item in zip(paths, memories, items):
            if len(item) != len(memory):
                raise EOFError("%s is shorter than the checkpoint says" % path)
            memory[:] = memoryview(item)

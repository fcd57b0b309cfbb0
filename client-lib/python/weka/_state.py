# SPDX-License-Identifier: BSD-2-Clause-Patent
"""The state of a checkpoint: its structure as JSON, its tensors as bytes, and parts of tensors."""

import base64
import json
import math

import torch


class Shard:
    """A part of a tensor: the block that begins at `start` of a tensor of `shape`.

    Without shape it is a whole tensor that only this rank has.
    """

    def __init__(self, tensor, shape=None, start=None):
        self.tensor = tensor
        self.shape = tuple(tensor.shape if shape is None else shape)
        self.start = tuple([0] * len(self.shape) if start is None else start)
        if len(self.start) != len(self.shape) or tensor.dim() != len(self.shape):
            raise ValueError("tensor, shape and start of a Shard have the same number of dimensions")
        for begin, length, whole in zip(self.start, tensor.shape, self.shape):
            if begin < 0 or begin + length > whole:
                raise ValueError("the Shard is not inside its tensor of shape %s" % (self.shape,))


def encode(value, name, found):
    """Returns the value as JSON; found[name of a tensor] = tensor or Shard."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (torch.Tensor, Shard)):
        key = json.dumps(name)
        found[key] = value
        return {"tensor": key}
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, (str, int)) or isinstance(key, bool):
                raise TypeError("a checkpoint cannot have the key %r: keys are str or int" % (key,))
        return {"dict": [[key, encode(item, name + [key], found)] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [encode(item, name + [i], found) for i, item in enumerate(value)]}
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": base64.b64encode(value).decode()}
    raise TypeError("a checkpoint cannot have a %s (%s): only tensors, numbers, str, bytes, None, and dicts, lists and "
                    "tuples of them" % (type(value).__name__, json.dumps(name)))


def decode(value, tensors):
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind == "tensor":
        return tensors[inner]
    if kind == "dict":
        return {key: decode(item, tensors) for key, item in inner}
    if kind == "bytes":
        return base64.b64decode(inner)
    items = [decode(item, tensors) for item in inner]
    return items if kind == "list" else tuple(items)


def merge(one, other):
    """The structure of two ranks: dicts have the keys of both, and what both have is the first one's."""
    if not (isinstance(one, dict) and isinstance(other, dict) and "dict" in one and "dict" in other):
        return one
    merged = {json.dumps(key): [key, item] for key, item in one["dict"]}
    for key, item in other["dict"]:
        at = merged.setdefault(json.dumps(key), [key, item])
        at[1] = merge(at[1], item)
    return {"dict": list(merged.values())}


def memory(tensor):
    """The memory of a contiguous tensor of the CPU, as writable bytes."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return memoryview(tensor.detach().reshape(-1).view(torch.uint8).numpy())


def plain(tensor):
    """The same tensor, if its memory is contiguous and the CPU's; else a copy that is."""
    if tensor.layout != torch.strided or tensor.is_quantized:
        raise TypeError("a checkpoint has dense tensors only, not %s" % tensor.layout)
    return tensor.detach().resolve_conj().resolve_neg().to("cpu").contiguous()


def size(tensor):
    return tensor.numel() * tensor.element_size()


def only(structure, tensors):
    """The structure without the tensors that were not asked for."""
    if not isinstance(structure, dict):
        return structure
    ((kind, inner),) = structure.items()
    if kind == "dict":
        return {kind: [[key, only(item, tensors)] for key, item in inner if _stays(item, tensors)]}
    if kind in ("list", "tuple"):
        return {kind: [only(item, tensors) for item in inner if _stays(item, tensors)]}
    return structure


def _stays(structure, tensors):
    return not (isinstance(structure, dict) and "tensor" in structure and structure["tensor"] not in tensors)


# ---- blocks: (start, length) of each dimension


def _without(block, other):
    """The blocks that together are `block` without `other`."""
    start, length = block
    low = [max(a, b) for a, b in zip(start, other[0])]
    high = [min(a + n, b + m) for a, n, b, m in zip(start, length, *other)]
    if any(h <= l for l, h in zip(low, high)):
        yield block
        return
    start, length = list(start), list(length)
    for i in range(len(start)):
        before, after = low[i] - start[i], start[i] + length[i] - high[i]
        if before:
            yield tuple(start), tuple(length[:i] + [before] + length[i + 1:])
        if after:
            yield tuple(start[:i] + [high[i]] + start[i + 1:]), tuple(length[:i] + [after] + length[i + 1:])
        start[i], length[i] = low[i], high[i] - low[i]


def check(pieces):
    """ValueError unless each tensor has one shape and type, and no element is missing."""
    kinds, left = {}, {}
    for piece in pieces:
        name, kind = piece["name"], (piece["dtype"], tuple(piece["shape"]))
        if kinds.setdefault(name, kind) != kind:
            raise ValueError("ranks have tensor %s in different shapes or types" % name)
        whole = [((0,) * len(kind[1]), kind[1])] if math.prod(kind[1]) else []
        block = (tuple(piece["start"]), tuple(piece["length"]))
        left[name] = [part for rest in left.get(name, whole) for part in _without(rest, block)]
    for name, rest in left.items():
        if rest:
            raise ValueError("no rank has all of tensor %s: the part at %s is missing" % (name, rest[0][0]))

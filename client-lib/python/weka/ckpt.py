# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Checkpoints: tensors written by all ranks of a job at once, visible as a whole or not at all.

    weka.ckpt.save(client, "/runs/7/step-1000", {"model": model.state_dict(), "step": 1000})
    state = weka.ckpt.load(client, "/runs/7/step-1000")
    weka.ckpt.load(client, "/runs/7/step-1000", into={"model": model.state_dict()})

Every rank calls save() with the same state, and writes its share of the tensors; a tensor of which
each rank has a part is a Shard.  load() works with any number of ranks.

    /runs/7/.step-1000.saving-TOKEN/    while it is written
        rank-0, rank-1, ...             tensors, one after the other
        rank-0.json, rank-1.json, ...   what is in them: the rank has written all
        checkpoint.json                 of all ranks, written last
    /runs/7/step-1000/                  the same directory, renamed: the checkpoint

A save that failed or was interrupted may leave a directory of the first name, which the next save()
to that path removes.  Nothing in a checkpoint is executed when it is loaded: structure and numbers are JSON.
"""

import json
import operator
import os
import time
import uuid

import torch
import torch.distributed

from . import _ranges, _state
from ._state import Shard

__all__ = ["Shard", "load", "save"]

_FORMAT = "weka checkpoint 1"
_ALIGN = 4096  # of a large tensor in its file, and of the small ones together
_SMALL = 64 << 10  # tensors up to here are written together
_GROUP = 8 << 20  # bytes of one write of small tensors
_POLL = 0.05


# ---- saving


class _Group:
    """The ranks that save together; they meet through files, or torch.distributed."""

    def __init__(self, rank, world, token, timeout):
        distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        self.world = operator.index(world if world is not None else torch.distributed.get_world_size() if distributed else 1)
        self.rank = operator.index(rank if rank is not None else torch.distributed.get_rank() if distributed else 0)
        if not 0 <= self.rank < self.world:
            raise ValueError("the rank must be 0 to %d, below world" % (self.world - 1))
        self.until = time.monotonic() + timeout
        self.token = token
        if token is None and distributed and self.world > 1:
            name = [uuid.uuid4().hex]
            torch.distributed.broadcast_object_list(name)
            self.token = name[0]
        elif token is None and self.world > 1:
            raise ValueError("without torch.distributed, ranks need the same token=, which no other save has")
        elif token is None:
            self.token = uuid.uuid4().hex
        if not str(self.token) or "/" in str(self.token) or len(str(self.token)) > 100:
            raise ValueError("a token has 1 to 100 characters, and no slash")

    def wait(self):
        if time.monotonic() > self.until:
            raise TimeoutError("the other ranks of the checkpoint did not come in time")
        time.sleep(_POLL)


def _owners(tensors, world):
    """{name: rank that writes it}, the same in all ranks: each has about as many bytes."""
    load, owners = [0] * world, {}
    for name in sorted(tensors, key=lambda name: (-_state.size(tensors[name]), name)):
        owners[name] = load.index(min(load))
        load[owners[name]] += _state.size(tensors[name]) + 1
    return owners


class _Writer:
    """One rank's file.  Large tensors are written from their own memory, small ones together."""

    def __init__(self, client, path):
        self.client, self.path, self.at = client, path, 0
        self.small = bytearray()

    def add(self, tensor):
        """Writes it, now or at the end of the group, and returns its offset."""
        if _state.size(tensor) > _SMALL:
            self.flush()
            offset = self.at
            self.client.write(self.path, _state.memory(tensor), offset)
            self.at += -(-_state.size(tensor) // _ALIGN) * _ALIGN
            return offset
        if len(self.small) + _state.size(tensor) > _GROUP:
            self.flush()
        offset = self.at + len(self.small)
        if tensor.numel():
            self.small += _state.memory(tensor)
        self.small += bytes(-len(self.small) % 16)
        return offset

    def flush(self):
        if self.small:
            self.client.write(self.path, self.small, self.at)
        self.at += -(-len(self.small) // _ALIGN) * _ALIGN
        self.small = bytearray()


def _write(client, folder, group, state):
    """Writes this rank's share, and then what it is."""
    found, pieces = {}, []
    structure = _state.encode(state, [], found)
    owners = _owners({name: t for name, t in found.items() if isinstance(t, torch.Tensor)}, group.world)
    writer = _Writer(client, "%s/rank-%d" % (folder, group.rank))
    for name, value in found.items():
        if owners.get(name, group.rank) != group.rank:
            continue
        shard = value if isinstance(value, Shard) else Shard(value)
        tensor = _state.plain(shard.tensor)
        pieces.append({"name": name, "dtype": str(tensor.dtype)[len("torch."):], "shape": shard.shape,
                       "start": shard.start, "length": tuple(tensor.shape), "file": "rank-%d" % group.rank,
                       "offset": writer.add(tensor)})
    writer.flush()
    part = {"structure": structure, "pieces": pieces, "tensors": len(found)}
    client.put("%s/rank-%d.json" % (folder, group.rank), json.dumps(part).encode())


def _gather(client, folder, group):
    """Rank 0: waits for all ranks, and writes what the checkpoint has."""
    names = ["%s/rank-%d.json" % (folder, rank) for rank in range(group.world)]
    while True:
        _failed(client, folder)
        there = set(client.listdir(folder))
        if all(name.rsplit("/", 1)[1] in there for name in names):
            break
        group.wait()
    parts = [json.loads(client.read(name)) for name in names]
    structure = parts[0]["structure"]
    for part in parts[1:]:
        structure = _state.merge(structure, part["structure"])
    whole = {"format": _FORMAT, "token": str(group.token), "world": group.world, "structure": structure,
             "pieces": [piece for part in parts for piece in part["pieces"]]}
    _state.check(whole["pieces"])
    client.put(folder + "/checkpoint.json", json.dumps(whole).encode())


def _exists(client, path):
    try:
        client.stat(path)
    except FileNotFoundError:
        return False
    return True


def _remove(client, folder):
    try:
        client.rmtree(folder)
    except FileNotFoundError:
        pass


def _begin(client, parent, name, folder, group):
    """Rank 0: removes what interrupted saves left, and makes the folder; others wait for it."""
    if group.rank == 0:
        for old in client.listdir(parent or "/"):
            if old.startswith(".%s.saving-" % name):
                _remove(client, "%s/%s" % (parent, old))
        client.mkdir(folder)
    while group.rank and not _exists(client, folder):
        group.wait()


def _failed(client, folder):
    """Raises the error if a rank has failed."""
    for name in client.listdir(folder):
        if name.endswith(".failed"):
            raise RuntimeError("%s of the checkpoint failed" % name[:-len(".failed")].replace("-", " "))


def _wait_for_end(client, path, folder, group):
    """Ranks but the first: until the checkpoint has its name."""
    while True:
        try:
            _failed(client, folder)
        except FileNotFoundError:
            break
        group.wait()
    try:
        token = json.loads(client.read(path + "/checkpoint.json"))["token"]
    except FileNotFoundError:
        token = None
    if token != str(group.token):
        raise RuntimeError("the checkpoint failed: rank 0 gave it up")


def save(client, path, state, *, rank=None, world=None, token=None, timeout=600):
    """Saves a state: dicts, lists and tuples of tensors, Shards, numbers, str, bytes and None.

    All ranks call it, and return when the checkpoint has its name.  A tensor is the same in all
    ranks, and one of them writes it; a Shard is written by each rank that has it.  Numbers and the
    like are rank 0's.  Tensors are written from their own memory, unless they are a GPU's or not
    contiguous.

    rank and world are those of torch.distributed, if it is initialised, and else 0 and 1.  token:
    for ranks without torch.distributed, a name of this save that all know.  timeout: seconds that a
    rank waits for the others.

    FileExistsError when the path is there.  When a rank fails, or is killed, nothing has that path;
    the other ranks get an error, after a failure at once.
    """
    path = os.fspath(path).rstrip("/")
    parent, _, name = path.rpartition("/")
    if not name:
        raise ValueError("a checkpoint needs a path with a name")
    group = _Group(rank, world, token, timeout)
    folder = "%s/.%s.saving-%s" % (parent, name, group.token)
    if _exists(client, path):
        raise FileExistsError(17, "the checkpoint is there already", path)
    _begin(client, parent, name, folder, group)
    try:
        _write(client, folder, group, state)
        if group.rank == 0:
            _gather(client, folder, group)
            client.rename(folder, path, replace=False)
    except BaseException:
        _give_up(client, folder, group)
        raise
    if group.rank:
        _wait_for_end(client, path, folder, group)


def _give_up(client, folder, group):
    """Tells the other ranks, which may not have begun; rank 0 removes what was written."""
    try:
        if group.rank == 0:
            _remove(client, folder)
            if group.world == 1:
                return
            client.mkdir(folder)
        client.put("%s/rank-%d.failed" % (folder, group.rank), b"")
    except OSError:
        pass  # the error that is under way says more


# ---- loading


def _wanted(name, value, pieces):
    """(Shard, tensor in the CPU's memory that is to be filled) of what the caller wants."""
    dtype, shape = getattr(torch, pieces[0]["dtype"]), tuple(pieces[0]["shape"])
    if value is None:
        value = torch.empty(shape, dtype=dtype)
    shard = value if isinstance(value, Shard) else Shard(value)
    if shard.shape != shape or shard.tensor.dtype != dtype:
        raise ValueError("tensor %s is %s of shape %s in the checkpoint, not %s of %s" %
                         (name, dtype, shape, shard.tensor.dtype, shard.shape))
    tensor = shard.tensor.detach()
    if tensor.device.type != "cpu" or not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg():
        tensor = torch.empty(tensor.shape, dtype=dtype)
    return shard, tensor


def _open(client, folder):
    whole = client.read(folder + "/checkpoint.json")
    try:
        whole = json.loads(whole)
        if whole["format"] != _FORMAT:
            raise ValueError(whole["format"])
        pieces = {}
        for piece in whole["pieces"]:
            pieces.setdefault(piece["name"], []).append(piece)
        return whole["structure"], pieces
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError("%s is not a checkpoint that this version can read: %s" % (folder, error)) from None


def load(client, path, into=None):
    """Loads a checkpoint, and returns its state, with tensors of the CPU.

    into: a state whose tensors and Shards are filled, in place; it may leave out keys.  ValueError
    when one has another shape or type, KeyError when the checkpoint lacks it.  Numbers are returned,
    not put into it.
    """
    folder = os.fspath(path).rstrip("/")
    structure, pieces = _open(client, folder)
    wanted, ranges, later = {}, [], []
    if into is None:
        wanted = dict.fromkeys(pieces)
    else:
        _state.encode(into, [], wanted)
    tensors = {}
    for name, value in wanted.items():
        if name not in pieces:
            raise KeyError("the checkpoint has no tensor %s" % name)
        shard, tensor = _wanted(name, value, pieces[name])
        tensors[name] = value if value is not None else tensor
        ranges.extend(_ranges.ranges(folder, pieces[name], shard, tensor))
        if tensor.data_ptr() != shard.tensor.data_ptr():
            later.append((shard.tensor, tensor))
    _ranges.read(client, ranges)
    with torch.no_grad():
        for target, tensor in later:
            target.copy_(tensor)
    return _state.decode(_state.only(structure, tensors), tensors)

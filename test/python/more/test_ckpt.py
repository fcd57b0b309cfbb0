# SPDX-License-Identifier: BSD-2-Clause-Patent
"""weka.ckpt: whole or not there, with every number of ranks, into tensors of the caller's."""
import json
import math
import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

from conftest import ADDRESSES, KEY, connect, has_let_go, pool_used

torch = pytest.importorskip("torch", reason="no torch")

import weka.ckpt  # noqa: E402
from weka.ckpt import Shard  # noqa: E402


def same(one, other):
    """Structures are equal, with types, and tensors bit by bit."""
    if isinstance(one, torch.Tensor):
        return (one.dtype, one.shape) == (other.dtype, other.shape) and torch.equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[k], other[k]) for k in one)
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def state_of():
    torch.manual_seed(1)
    return {
        "float": torch.randn(300, 700),  # large: written from its own memory
        "half": torch.randn(33).to(torch.float16), "brain": torch.randn(3, 5).to(torch.bfloat16),
        "bool": torch.tensor([True, False]), "int": torch.arange(100000), "scalar": torch.tensor(3.5),
        "complex": torch.randn(4, 4, dtype=torch.complex64), "conj": torch.randn(4, dtype=torch.complex64).conj(),
        "empty": torch.empty(0, 3), "turned": torch.randn(300, 200).t(), "one": torch.randn(1).expand(5),
        "numbers": [1, -2.5, True, None, "text \u20ac", 2**70, math.inf], "pair": (1, (2, 3)), "bytes": b"\x00\xff",
        5: {"nested": [torch.zeros(2), {}]}, "grad": torch.ones(3, requires_grad=True),
    }


def ranks(count, call):
    """Calls call(rank) in a thread each; returns the exceptions or None of each."""
    ends = [None] * count

    def run(rank):
        try:
            call(rank)
        except Exception as error:
            ends[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ends


def test_what_was_saved_is_loaded(client, top):
    state = state_of()
    weka.ckpt.save(client, top + "/a", state)
    assert client.listdir(top) == ["a"] and sorted(client.listdir(top + "/a")) == [
        "checkpoint.json", "rank-0", "rank-0.json"]
    assert same(weka.ckpt.load(client, top + "/a"), state)
    assert pool_used(client) == 0


def test_a_model_and_its_optimizer(shm, top):
    def made(seed):
        torch.manual_seed(seed)
        model = torch.nn.Sequential(torch.nn.Linear(100, 300), torch.nn.BatchNorm1d(300), torch.nn.Linear(300, 3))
        return model, torch.optim.AdamW(model.parameters(), lr=0.01)

    def step(model, optimizer):
        optimizer.zero_grad()
        loss = model(torch.linspace(0, 1, 800).reshape(8, 100)).square().sum()
        loss.backward()
        optimizer.step()
        return loss.item()

    model, optimizer = made(1)
    for _ in range(3):
        step(model, optimizer)
    weka.ckpt.save(shm, top + "/a", {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 3})
    other, other_optimizer = made(2)
    addresses = [p.data_ptr() for p in other.parameters()]
    state = weka.ckpt.load(shm, top + "/a", into={"model": other.state_dict()})  # in place
    assert list(state) == ["model", "optimizer", "step"] and state["step"] == 3
    assert addresses == [p.data_ptr() for p in other.parameters()]
    other_optimizer.load_state_dict(weka.ckpt.load(shm, top + "/a")["optimizer"])
    assert same(other.state_dict(), model.state_dict())
    assert step(other, other_optimizer) == step(model, optimizer)


@pytest.mark.parametrize("world", [2, 3])
def test_ranks_share_the_work(shm, top, world):
    state = state_of()
    save = lambda rank: weka.ckpt.save(shm, top + "/a", state, rank=rank, world=world, token="t")  # noqa: E731
    assert ranks(world, save) == [None] * world
    assert same(weka.ckpt.load(shm, top + "/a"), state)
    sizes = [shm.stat("%s/a/rank-%d" % (top, rank)).st_size for rank in range(world)]
    assert min(sizes) > 100000 and max(sizes) < 1100000  # of 1,880,000 bytes
    assert shm.listdir(top) == ["a"]


def test_ranks_of_torch_distributed(shm, top, tmp_path):
    """Rank, world and token come from it."""
    code = """
import sys, torch, torch.distributed, weka, weka.ckpt
path, rank, meet = sys.argv[1:]
torch.distributed.init_process_group("gloo", init_method="file://" + meet, rank=int(rank), world_size=2)
client = weka.Client()
for n in range(3):
    weka.ckpt.save(client, path + str(n), {"w": torch.full((5,), float(n)), "own": {rank: n}})
    assert client.stat(path + str(n))
"""
    env = dict(os.environ, WEKA_ADDRESS=ADDRESSES["shm"], WEKA_KEY_FILE=KEY)
    run = [subprocess.Popen([sys.executable, "-c", code, top + "/", str(r), str(tmp_path / "meet")], env=env)
           for r in range(2)]
    assert [child.wait() for child in run] == [0, 0]
    assert sorted(shm.listdir(top)) == ["0", "1", "2"]
    for n in range(3):
        assert same(weka.ckpt.load(shm, "%s/%d" % (top, n)), {"w": torch.full((5,), float(n)), "own": {"0": n, "1": n}})


def blocks_of(shape, rand):
    """A cut of a tensor into blocks: (start, length)."""
    cuts = []
    for n in shape:
        inner = sorted(rand.sample(range(1, n), rand.randrange(min(n, 3)))) if n > 1 else []
        cuts.append(list(zip([0] + inner, inner + [n])))
    blocks = [((), ())]
    for cut in cuts:
        blocks = [(s + (a,), l + (b - a,)) for s, l in blocks for a, b in cut]
    return blocks


def part(tensor, start, length):
    return tensor[tuple(slice(a, a + n) for a, n in zip(start, length))]


@pytest.mark.parametrize("seed", range(12))
def test_shards_of_one_world_are_loaded_by_another(shm, top, seed):
    rand = random.Random(seed)
    shape = tuple(rand.randrange(1, 40) for _ in range(rand.randrange(1, 4)))
    whole = torch.arange(math.prod(shape), dtype=rand.choice([torch.int64, torch.uint8, torch.float32])).reshape(shape)
    blocks = blocks_of(shape, rand)
    blocks += rand.sample(blocks, min(len(blocks), 2))  # some ranks have the same
    world = len(blocks)
    save = lambda rank: weka.ckpt.save(  # noqa: E731
        shm, top + "/a", {"w": Shard(part(whole, *blocks[rank]).clone(), shape, blocks[rank][0])}, rank=rank,
        world=world, token="t")
    assert ranks(world, save) == [None] * world
    assert torch.equal(weka.ckpt.load(shm, top + "/a")["w"], whole)
    for start, length in blocks_of(shape, rand):
        shard = Shard(torch.zeros(length, dtype=whole.dtype), shape, start)
        weka.ckpt.load(shm, top + "/a", into={"w": shard})
        assert torch.equal(shard.tensor, part(whole, start, length))


def test_a_shard_is_one_tensor(shm, top):
    """Rows, columns and blocks; saved by 4 ranks, loaded by 1, 2 and 3."""
    whole = torch.randn(12, 60, 50)
    for cut, dim in enumerate((0, 1, 2)):
        parts = whole.chunk(4, dim)
        starts = [[0, 0, 0] for _ in parts]
        for i, p in enumerate(parts):
            starts[i][dim] = sum(q.shape[dim] for q in parts[:i])
        path = "%s/%d" % (top, cut)
        save = lambda rank: weka.ckpt.save(  # noqa: E731
            shm, path, {"w": Shard(parts[rank], whole.shape, starts[rank]), "rank": rank, "mine": {rank: rank}},
            rank=rank, world=4, token="t")
        assert ranks(4, save) == [None] * 4
        state = weka.ckpt.load(shm, path)
        assert torch.equal(state["w"], whole) and state["rank"] == 0
        assert state["mine"] == {0: 0, 1: 1, 2: 2, 3: 3}
        for world, other in ((2, 0), (3, 1), (2, 2)):
            got, at = [], 0
            for piece in whole.chunk(world, other):
                start = [0, 0, 0]
                start[other], at = at, at + piece.shape[other]
                shard = Shard(torch.zeros(piece.shape), whole.shape, start)
                assert weka.ckpt.load(shm, path, into={"w": shard})["w"] is shard
                got.append(shard.tensor)
            assert torch.equal(torch.cat(got, other), whole)


def test_into_what_cannot_be_filled_in_place(shm, top):
    whole = torch.randn(200, 300)
    weka.ckpt.save(shm, top + "/a", {"w": whole, "v": torch.ones(3)})
    turned = torch.zeros(300, 200).t()
    parameter = torch.nn.Parameter(torch.zeros(3))
    state = weka.ckpt.load(shm, top + "/a", into={"w": turned, "v": parameter})
    assert torch.equal(turned, whole) and state["w"] is turned
    assert torch.equal(parameter.data, torch.ones(3)) and parameter.requires_grad


def test_into_what_does_not_fit(shm, top):
    weka.ckpt.save(shm, top + "/a", {"w": torch.ones(3, 4)})
    for wrong in (torch.ones(4, 3), torch.ones(3, 4, dtype=torch.float64), Shard(torch.ones(3, 4), (6, 4), (0, 0))):
        with pytest.raises(ValueError, match="in the checkpoint, not"):
            weka.ckpt.load(shm, top + "/a", into={"w": wrong})
    with pytest.raises(KeyError, match="no tensor"):
        weka.ckpt.load(shm, top + "/a", into={"v": torch.ones(3, 4)})


def test_what_cannot_be_saved(shm, top):
    for wrong in ({"a": object()}, {(1, 2): 3}, {"a": {1, 2}}, [torch.ones(3).to_sparse()], {True: 1}):
        with pytest.raises(TypeError, match="checkpoint"):
            weka.ckpt.save(shm, top + "/a", wrong)
        assert shm.listdir(top) == []
    with pytest.raises(ValueError, match="token="):
        weka.ckpt.save(shm, top + "/a", {}, rank=0, world=2)
    with pytest.raises(ValueError, match="no slash"):
        weka.ckpt.save(shm, top + "/a", {}, token="a/b")
    with pytest.raises(ValueError, match="below world"):
        weka.ckpt.save(shm, top + "/a", {}, rank=2, world=2, token="t")
    with pytest.raises(ValueError, match="path with a name"):
        weka.ckpt.save(shm, "/", {})
    with pytest.raises(ValueError, match="inside its tensor"):
        Shard(torch.ones(3), (4,), (2,))
    with pytest.raises(ValueError, match="number of dimensions"):
        Shard(torch.ones(3), (4, 1), (0, 0))
    with pytest.raises(ValueError, match="part at .* is missing"):
        weka.ckpt.save(shm, top + "/a", {"w": Shard(torch.ones(3, 2), (4, 2), (1, 0))})
    assert shm.listdir(top) == []


def test_a_name_that_is_taken(shm, top):
    weka.ckpt.save(shm, top + "/a", {"n": 1})
    with pytest.raises(FileExistsError):
        weka.ckpt.save(shm, top + "/a", {"n": 2})
    assert weka.ckpt.load(shm, top + "/a") == {"n": 1} and shm.listdir(top) == ["a"]
    with pytest.raises(FileNotFoundError):
        weka.ckpt.load(shm, top + "/b")
    with pytest.raises(FileNotFoundError):
        weka.ckpt.save(shm, top + "/no/a", {})


def test_a_rank_that_fails(shm, top):
    """The others are told, long before their timeout of 600 s, also those that begin later."""
    def save(rank):
        if late == rank:
            time.sleep(0.3)
        state = {"w": torch.ones(3), "x": object() if rank == bad else 1}
        weka.ckpt.save(shm, top + "/a", state, rank=rank, world=3, token="%d-%d" % (bad, late))

    for bad, late in ((0, 0), (0, 2), (2, 2), (2, 1)):
        ends = ranks(3, save)
        assert isinstance(ends[bad], TypeError) and all(isinstance(e, (RuntimeError, TypeError, OSError)) for e in ends)
        assert shm.listdir(top) == [".a.saving-%d-%d" % (bad, late)]
    weka.ckpt.save(shm, top + "/a", {})
    assert shm.listdir(top) == ["a"]


def test_a_rank_that_does_not_come(shm, top):
    with pytest.raises(TimeoutError, match="other ranks"):
        weka.ckpt.save(shm, top + "/a", {"n": 1}, rank=0, world=2, token="t", timeout=0.3)
    with pytest.raises(RuntimeError, match="rank 0 of the checkpoint failed"):  # it comes late
        weka.ckpt.save(shm, top + "/a", {"n": 1}, rank=1, world=2, token="t")
    shm.rmtree(top + "/.a.saving-t")
    with pytest.raises(TimeoutError, match="other ranks"):
        weka.ckpt.save(shm, top + "/a", {"n": 1}, rank=1, world=2, token="t", timeout=0.3)
    assert shm.listdir(top) == []


def test_a_save_that_is_killed_leaves_nothing(shm, top):
    """Killed again and again in the middle: the name is not there, or has the whole."""
    code = """
import sys, torch, weka, weka.ckpt
client = weka.Client()
state = {"n%d" % n: torch.full((50000,), float(n)) for n in range(100)}
print("begin", flush=True)
weka.ckpt.save(client, sys.argv[1], state)
"""
    env = dict(os.environ, WEKA_ADDRESS=ADDRESSES["shm"], WEKA_KEY_FILE=KEY)
    rand = random.Random(3)
    for _ in range(6):
        remains = set(shm.listdir(top))
        child = subprocess.Popen([sys.executable, "-c", code, top + "/a"], env=env, stdout=subprocess.PIPE)
        assert child.stdout.readline() == b"begin\n"
        while set(shm.listdir(top)) <= remains:  # it removes them first
            assert child.poll() is None or "a" in shm.listdir(top)
        time.sleep(rand.random() * 0.05)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        assert has_let_go(child.pid)  # a rename that was under way is over
        names = shm.listdir(top)
        if "a" in names:
            assert len(weka.ckpt.load(shm, top + "/a")) == 100
            shm.rmtree(top + "/a")
        else:
            assert len(names) == 1 and names[0].startswith(".a.saving-")
    weka.ckpt.save(shm, top + "/b", {"n": 1})  # another name's remains are not its business
    weka.ckpt.save(shm, top + "/a", {"n": 1})
    assert sorted(shm.listdir(top)) == ["a", "b"]


def test_a_checkpoint_that_is_damaged(shm, top):
    weka.ckpt.save(shm, top + "/a", {"w": torch.ones(100000), "v": torch.ones(10)})
    about = shm.read(top + "/a/checkpoint.json")
    shm.truncate(top + "/a/rank-0", 399000)
    for name in "wv":
        with pytest.raises(EOFError, match="shorter"):
            weka.ckpt.load(shm, top + "/a")
        shm.truncate(top + "/a/rank-0", 4096)
    for wrong in (about[:100], b"{}", b"[1]", json.dumps(dict(json.loads(about), format="weka checkpoint 9")).encode()):
        shm.put(top + "/a/checkpoint.json", wrong)
        with pytest.raises(ValueError, match="not a checkpoint that this version can read"):
            weka.ckpt.load(shm, top + "/a")

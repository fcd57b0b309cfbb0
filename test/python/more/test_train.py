# SPDX-License-Identifier: BSD-2-Clause-Patent
"""examples/train_fashion_mnist.py, on images of its format that are made here: the appliance and local
files give the same model, and so does a run that was stopped in the middle of an epoch."""
import gzip
import importlib.util
import os
import random
import struct

import pytest

from conftest import ADDRESSES, KEY, pool_used

torch = pytest.importorskip("torch", reason="no torch")

EXAMPLE = os.path.join(os.path.dirname(__file__), "..", "..", "..", "client-lib", "python", "examples",
                       "train_fashion_mnist.py")


def idx(path, dimensions, data):
    with gzip.open(path, "wb", 1) as f:
        f.write(bytes([0, 0, 8, len(dimensions)]) + struct.pack(">%dI" % len(dimensions), *dimensions) + data)


@pytest.fixture
def source(tmp_path):
    """Each class has a pattern of its own, below much noise."""
    rng = random.Random(3)
    patterns = [bytes(rng.choices((0, 70), k=784)) for _ in range(10)]
    for prefix, count in (("train", 1500), ("t10k", 500)):
        labels = bytes(rng.choices(range(10), k=count))
        pixels = bytes(a + b for n in labels for a, b in zip(patterns[n], rng.randbytes(784).translate(NOISE)))
        idx(tmp_path / (prefix + "-images-idx3-ubyte.gz"), (count, 28, 28), pixels)
        idx(tmp_path / (prefix + "-labels-idx1-ubyte.gz"), (count,), labels)
    return str(tmp_path)


NOISE = bytes(n * 185 // 255 for n in range(256))


@pytest.fixture
def example(monkeypatch, clients):
    monkeypatch.setenv("WEKA_ADDRESS", ADDRESSES["shm"])
    monkeypatch.setenv("WEKA_KEY_FILE", KEY)
    spec = importlib.util.spec_from_file_location("train_fashion_mnist", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.TOP = "/fashion-%d" % os.getpid()
    yield module
    client = clients["shm"]
    for part in ("train", "test"):
        client.drop_dataset("fashion-" + part, 0)
    client.rmtree(module.TOP)
    assert pool_used(client) == 0


def test_the_example(example, source, tmp_path, capsys):
    def run(*arguments):
        example.main(list(arguments))
        return capsys.readouterr().out

    def reached(text):
        return [float(line.split("accuracy ")[1]) for line in text.splitlines() if "accuracy" in line]

    train = ("train", "--epochs", "2", "--batch", "32")
    local, checkpoint = str(tmp_path / "files"), str(tmp_path / "model.pt")
    assert "1500 samples" in run("import", source)
    assert "2000 files" in run("import", source, "--local", local)
    text = run(*train)
    whole = reached(text)
    assert len(whole) == 2 and whole[1] > 0.5  # 0.1 is chance
    assert text.count("1500 samples, ") == 2 and text.count("for the appliance") == 2
    assert max(abs(a - b) for a, b in zip(whole, reached(run(*train, "--local", local)))) <= 0.005
    for n, stop in enumerate((20, 1, 47)):  # in epoch 0, again, and in epoch 1
        text = run(*train, "--checkpoint", checkpoint, "--save-every", "7", "--stop-after", str(stop))
        assert "stopped" in text and ("going on in epoch 0" in text) == (n > 0)
    text = run(*train, "--checkpoint", checkpoint)
    assert "going on in epoch 1" in text and len(reached(text)) == 1
    assert abs(reached(text)[0] - whole[1]) <= 0.005

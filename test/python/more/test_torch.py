# SPDX-License-Identifier: BSD-2-Clause-Patent
"""weka.torch, and tensors over a batch."""
import errno
import gc

import pytest

from conftest import pool_used

torch = pytest.importorskip("torch", reason="no torch")

import weka.torch  # noqa: E402


def test_tensors_without_a_copy(client, files):
    paths = [p for p in files if files[p]][:4]
    batch = client.read_batch(paths)
    tensors = [torch.frombuffer(item, dtype=torch.uint8) for item in batch] + [torch.from_dlpack(batch[0])]
    address = tensors[0].data_ptr()
    assert address == tensors[4].data_ptr() == torch.frombuffer(batch[0], dtype=torch.uint8).data_ptr()
    with pytest.raises(BufferError):
        batch.release()
    del batch
    gc.collect()
    assert [bytes(t.numpy()) for t in tensors] == [files[p] for p in paths + paths[:1]]
    del tensors
    assert pool_used(client) == 0


def length_and_sum(item):
    view = memoryview(item)
    return torch.tensor([len(view), sum(view[:100])])


def expected(files, paths):
    return [[len(files[p]), sum(files[p][:100])] for p in paths]


def test_dataset(client, files):
    paths = list(files)
    dataset = weka.torch.Dataset(client, paths)
    assert len(dataset) == 600
    assert [bytes(t.numpy()) for t in dataset.__getitems__([5, 0, 599, 5])] == [
        files[paths[n]] for n in (5, 0, 599, 5)]
    assert bytes(dataset[7].numpy()) == files[paths[7]] == bytes(dataset[7 - 600].numpy())
    with pytest.raises(IndexError):
        dataset[600]
    with pytest.raises(TypeError):
        dataset["5"]
    with pytest.raises(ValueError):
        weka.torch.Dataset(client, paths, targets=[1])
    with pytest.raises(ValueError):
        weka.torch.Dataset(client, paths, threads=-1)


def test_a_batch_is_one_submission(client, files):
    dataset = weka.torch.Dataset(client, list(files)[:256], decode=len)
    dataset.__getitems__(range(256))  # it knows how large files are
    before = client.info()["completed"]
    assert dataset.__getitems__(range(256)) == [len(d) for d in list(files.values())[:256]]
    assert client.info()["completed"] - before <= 3
    (few,) = {p: 1 for p in [client.info()["completed"]]}
    small = weka.torch.Dataset(client, list(files)[:40], decode=len)
    small.__getitems__(range(40))
    assert client.info()["completed"] - few == 1


@pytest.mark.parametrize("workers,start,threads", [(0, None, 0), (0, None, 3), (2, "fork", 0), (2, "fork", 2),
                                                   (2, "spawn", 0)])
def test_a_loader(clients, maker, files, workers, start, threads):
    client = clients["tcp"]
    paths = list(files)
    targets = list(range(600))
    dataset = weka.torch.Dataset(client, paths, decode=length_and_sum, targets=targets, threads=threads)
    loader = torch.utils.data.DataLoader(dataset, batch_size=64, shuffle=True, num_workers=workers,
                                         multiprocessing_context=start)
    for _ in range(1 if start == "spawn" else 2):
        seen = {}
        for samples, labels in loader:
            assert samples.shape == (len(labels), 2)
            seen.update(zip(labels.tolist(), samples.tolist()))
        assert [seen[n] for n in range(600)] == expected(files, paths)
    assert pool_used(client) == 0


def test_raw_bytes_through_workers(clients, maker, files):
    paths = [p for p in files if files[p]][:100]
    dataset = weka.torch.Dataset(clients["shm"], paths)
    loader = torch.utils.data.DataLoader(dataset, batch_size=10, num_workers=2, collate_fn=list)
    got = [bytes(t.numpy()) for batch in loader for t in batch]
    assert got == [files[p] for p in paths]


def test_a_file_that_is_gone(client, files, top):
    dataset = weka.torch.Dataset(client, list(files)[:3] + [top + "/none"], decode=len)
    with pytest.raises(FileNotFoundError) as e:
        dataset.__getitems__([0, 3])
    assert (e.value.errno, e.value.filename) == (errno.ENOENT, top + "/none")
    assert dataset[0] == len(files[list(files)[0]])


def test_a_decoder_that_fails(client, files):
    def fails(item):
        raise ZeroDivisionError

    for threads in (0, 2):
        with pytest.raises(ZeroDivisionError):
            weka.torch.Dataset(client, list(files), decode=fails, threads=threads).__getitems__([1, 2, 3])
    gc.collect()
    assert pool_used(client) == 0


def test_epochs_leave_nothing_behind(client, files):
    dataset = weka.torch.Dataset(client, list(files), decode=length_and_sum, threads=2)
    loader = torch.utils.data.DataLoader(dataset, batch_size=100)
    for _ in range(10):
        for _ in loader:
            pass
    assert pool_used(client) == 0

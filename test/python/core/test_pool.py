# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Memory of the application's as a pool for batches."""
import errno
import gc
import mmap
import os
import threading

import numpy
import pytest

import weka
from conftest import connect, content, pool_used, run_python

UNIT = 2 << 20
COUNT = 40


@pytest.fixture(scope="module")
def dataset(clients):
    """(name, {sample: bytes})"""
    name = "pools-%d" % os.getpid()
    clients["shm"].mkdir("/" + name)
    files = {"/%s/%03d" % (name, n): content(n + 1) for n in range(COUNT)}
    clients["shm"].put_batch(list(files.items()))
    clients["shm"].create_dataset(name, "/" + name).close()
    yield name, list(files.values())
    clients["shm"].drop_dataset(name, 0)
    clients["shm"].rmtree("/" + name)


def memfd(size, flags=os.MFD_ALLOW_SEALING):
    fd = os.memfd_create("test", flags)
    os.ftruncate(fd, size)
    return fd


def shared(client, size=UNIT):
    """(pool, its memory)"""
    fd = memfd(size)
    memory = mmap.mmap(fd, size)
    pool = client.pool_add(memory, fd=fd)
    os.close(fd)
    return pool, memory


def begin_of(memory):
    return numpy.frombuffer(memory, numpy.uint8).ctypes.data


def expect(stream, files, memory):
    """All samples come, and lie in the memory."""
    begin, seen = begin_of(memory), []
    for batch in stream:
        for n, item in zip(batch.samples, batch):
            view = numpy.frombuffer(item, numpy.uint8)
            assert begin <= view.ctypes.data < begin + len(memory)
            assert bytes(item) == files[n]
            seen.append(n)
    assert sorted(seen) == list(range(COUNT))


@pytest.mark.parametrize("kind", ["shm", "tcp"])
def test_batches_are_in_the_memory(kind, dataset):
    with connect(kind) as client:
        pool, memory = shared(client)
        assert pool.bytes == UNIT and type(pool) is weka.Pool
        for epoch in range(3):
            expect(client.dataset(dataset[0]).stream(batch=7, epoch=epoch, pool=pool), dataset[1], memory)
        assert pool_used(client) == 0


def test_any_memory_over_tcp(dataset):
    with connect("tcp") as client:
        memory = mmap.mmap(-1, 2 * UNIT)
        pool = client.pool_add(memory)
        expect(client.dataset(dataset[0]).stream(batch=9, pool=pool), dataset[1], memory)


def test_the_memory_is_kept(dataset):
    client = connect("shm")
    pool, memory = shared(client)
    batch = next(client.dataset(dataset[0]).stream(batch=5, pool=pool))
    with pytest.raises(BufferError):
        memory.close()
    client.close()
    with pytest.raises(BufferError):  # a batch is alive
        memory.close()
    assert bytes(batch[0]) == dataset[1][batch.samples[0]]
    batch.release()
    del pool, batch
    gc.collect()
    memory.close()


def test_what_is_no_pool(shm, dataset):
    fd = memfd(UNIT)
    for wrong in (b"x" * UNIT, None, 5):
        with pytest.raises((TypeError, BufferError)):
            shm.pool_add(wrong, fd=fd)
    with pytest.raises(ValueError, match="2 MiB"):
        shm.pool_add(mmap.mmap(-1, 4096))
    with pytest.raises(ValueError, match="4096"):
        shm.pool_add(memoryview(mmap.mmap(-1, 2 * UNIT))[64:UNIT + 64])
    with pytest.raises(OSError) as e:
        shm.pool_add(mmap.mmap(-1, UNIT))
    assert e.value.errno == errno.EOPNOTSUPP and "memfd" in str(e.value)
    with pytest.raises(ValueError, match="another size"):
        shm.pool_add(mmap.mmap(-1, 2 * UNIT), fd=fd)
    unsealed = memfd(UNIT, 0)
    with pytest.raises(ValueError, match="MFD_ALLOW_SEALING"):
        shm.pool_add(mmap.mmap(unsealed, UNIT), fd=unsealed)
    with open(__file__, "rb") as file, pytest.raises(ValueError, match="no memfd"):
        shm.pool_add(mmap.mmap(-1, UNIT), fd=file.fileno())
    for n in (fd, unsealed):
        os.close(n)
    d = shm.dataset(dataset[0])
    with pytest.raises(TypeError):
        d.stream(batch=1, pool="pool")
    with pytest.raises(TypeError):
        weka.Pool()


def test_more_than_the_appliance_grants(shm):
    pools = []
    with connect("shm") as client, pytest.raises(OSError) as e:
        while len(pools) < 8:
            pools.append(shared(client)[0])
    assert len(pools) == 7 and e.value.errno == errno.ENOSPC and "at most 7 pools" in str(e.value)


def test_a_pool_of_another_session(dataset):
    with connect("shm") as one, connect("shm") as two:
        pool, _ = shared(one)
        with pytest.raises(ValueError, match="another client, thread or process"):
            two.dataset(dataset[0]).stream(batch=1, pool=pool)
        errors = []

        def elsewhere():
            try:
                one.dataset(dataset[0]).stream(batch=1, pool=pool)
            except ValueError as e:
                errors.append(str(e))

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert len(errors) == 1 and "thread" in errors[0]


def test_a_batch_that_is_too_large_for_it(dataset):
    with connect("shm") as client:
        pool, memory = shared(client)
        client.put("/pools-large", b"x" * (3 << 20))
        large = client.create_dataset("pools-large", "/", glob="pools-large")
        with pytest.raises(OSError) as e:
            next(large.stream(batch=1, pool=pool))
        assert e.value.errno == errno.EMSGSIZE and "the pool has 2" in str(e.value)
        client.drop_dataset("pools-large", 0)
        client.remove("/pools-large")


def test_after_a_fork(dataset):
    code = """
import mmap, os, sys, weka
fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
os.ftruncate(fd, 2 << 20)
memory = mmap.mmap(fd, 2 << 20)
client = weka.Client()
pool = client.pool_add(memory, fd=fd)
d = client.dataset(sys.argv[1])
if os.fork() == 0:
    try:
        d.stream(batch=1, pool=pool)
    except ValueError:
        own = client.pool_add(memory, fd=fd)
        os._exit(0 if len([n for b in d.stream(batch=4, pool=own) for n in b.samples]) == 40 else 2)
    os._exit(1)
status = os.wait()[1]
print(status, len([n for b in d.stream(batch=4, pool=pool) for n in b.samples]))
"""
    assert run_python(code, dataset[0]).stdout == "0 40\n"

# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Files of a weka appliance, many at a time and without a copy.

    import weka

    client = weka.Client("shm:/run/weka.sock", key_file="/etc/weka/key")
    client.put("/hello.txt", b"hello, world\\n")
    print(client.read("/hello.txt"))

    with client.read_batch(["/a.png", "/b.png"]) as batch:   # one round trip
        for item in batch:                                   # a buffer over the appliance's answer
            print(item.path, len(item), bytes(memoryview(item)[:8]))

One Client serves all threads of a process, each over a connection of its own, and its children.
Errors are OSErrors with errno and filename.  help(weka.Client) describes each call.
"""

from ._weka import Batch, Client, Dataset, Item, Pool, Sample, SampleBatch, Stat, Stream, __version__, order

__all__ = ["Batch", "Client", "Dataset", "Item", "Pool", "Sample", "SampleBatch", "Stat", "Stream", "connect",
           "order", "__version__"]


def connect(*args, **kwargs) -> Client:
    """The same as Client(...)."""
    return Client(*args, **kwargs)

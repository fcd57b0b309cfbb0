# SPDX-License-Identifier: BSD-2-Clause-Patent
"""The Python side of bench/python.sh: as test/tools/batch_clock.c, with a memoryview of each file.

    python_batch.py ADDRESS KEYFILE DIRECTORY COUNT TURNS
"""
import sys
import time

import weka

address, key, directory, count, turns = sys.argv[1:]
client = weka.Client(address, key_file=key)
paths = [f"{directory}/{n}" for n in range(int(count))]
for _ in range(int(turns)):
    begin = time.perf_counter_ns()
    views = [memoryview(item) for item in client.read_batch(paths)]
    size = sum(view.nbytes for view in views)
    del views  # the lease goes back
    print(time.perf_counter_ns() - begin)

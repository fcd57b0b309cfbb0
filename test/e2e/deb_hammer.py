# SPDX-License-Identifier: BSD-2-Clause-Patent
# A client that writes and reads until FILE is there; prints how often, and the first error.
# usage: deb_hammer.py FILE
import os
import sys

import weka

client = weka.Client(timeout=10)
count = 0
while not os.path.exists(sys.argv[1]):
    data = b"%d" % count * 1000
    client.put("/hammer", data)
    if client.read("/hammer") != data:
        sys.exit("an acknowledged write is lost: number %d" % count)
    count += 1
print(count)

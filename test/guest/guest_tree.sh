#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# The whole way of the data, on NVMe controllers that we did not write.
cd "$(dirname "$0")/../.." && . test/guest/lib.sh

make_tree "$OUT/src" 150
cp -r appliance meta "$OUT/src/"
describe "$OUT/src" >"$OUT/tree.src"

nvme d0 256M mdts=5 logical_block_size=4096,physical_block_size=4096
nvme d1 384M max_ioqpairs=4,msix_qsize=5 logical_block_size=512

GUEST_CONF='bind=nvme
export DRIVES="file:/dev/nvme0n1 file:/dev/nvme1n1"'
boot tree.sh
finish

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# What the driver reaches on controllers that are not ours, in a guest (test/guest/lib.sh): an
# emulated controller is slow, so what counts is vs_bare, to a bare doorbell loop in the same boot.
# BENCH_SECONDS and BENCH_RUNS: how long.
cd "$(dirname "$0")/.." && . test/guest/lib.sh

GUEST_CONF="export BENCH_SECONDS=${BENCH_SECONDS:-2} BENCH_RUNS=${BENCH_RUNS:-5}"
nvme d0 256M mdts=7 logical_block_size=4096,physical_block_size=4096
nvme d1 256M mdts=7 logical_block_size=512
boot bench.sh
finish

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# RDMA beside perftest's ib_write_bw, in one guest with soft-RoCE (test/guest/lib.sh), in turns: payload
# of a read goes as one RDMA WRITE, so a message of the same size is what there is to be had.
# BENCH_BYTES and BENCH_RUNS: how much, how often; BENCH_ROWS: "SIZE,DEPTH ...".
cd "$(dirname "$0")/.." && . test/guest/lib.sh

# shellcheck disable=SC2034 # lib.sh
GUEST_TOOLS=ib_write_bw
GUEST_MEMORY=2048
QEMU_MORE="-netdev user,id=n0,restrict=on -device virtio-net-pci,netdev=n0,addr=0x10${BENCH_MTU:+,host_mtu=$BENCH_MTU}"
GUEST_CONF="modules='9p 9pnet_virtio virtio_pci virtio_net crc32_generic rdma_rxe ib_uverbs rdma_ucm'
export BENCH_BYTES=${BENCH_BYTES:-100000000} BENCH_RUNS=${BENCH_RUNS:-5} BENCH_ROWS='${BENCH_ROWS:-4096,32 65536,32 1048576,8 4194304,4}'"
boot bench_rdma.sh
finish

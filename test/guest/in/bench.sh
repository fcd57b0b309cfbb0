# SPDX-License-Identifier: BSD-2-Clause-Patent
# shellcheck shell=sh
# The runs of bench/guest.sh.  The host may take a processor away at any time: a line that says
# "preempted" is worth nothing.
export WEKA_POISON_READS=0 # what is measured is what is shipped
. test/e2e/lib.sh

measure() { # NAME OPTIONS...
	name=$1
	shift
	check "$name" "$BIN/weka-bench" nvme --seconds "$BENCH_SECONDS" --runs "$BENCH_RUNS" --cores=0,1 "$@"
	cat "$DIR/check.out"
}

# shellcheck disable=SC2086 # $NVME is two addresses
set -- $NVME
for depth in 1 32 128; do
	measure "4 KiB reads, depth $depth" --drive "pci:$1" --depth $depth
done
measure "4 KiB reads of LBAs of 512 bytes, depth 32" --drive "pci:$2"
measure "4 KiB writes, depth 32" --drive "pci:$1" --write
measure "4 KiB, 70 % reads, depth 32" --drive "pci:$1" --reads 70
measure "128 KiB reads from the start, depth 8" --drive "pci:$1" --size 128K --depth 8
measure "4 KiB reads of two drives, depth 32 each" --drive "pci:$1" --drive "pci:$2"
measure "4 KiB reads of two drives by two cores" --drive "pci:$1" --drive "pci:$2" --threads 2
finish

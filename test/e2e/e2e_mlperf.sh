#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# weka-bench mlperf: datasets have the layout that DLIO gives them; accelerators are fed from an
# appliance over each transport and from a local directory, every file being the one that was asked
# for; a wrong file is noticed.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=1}"
BENCH=$BIN/weka-bench

mlperf() { # WORKLOAD BYTES OPTION...
	workload=$1 bytes=$2
	shift 2
	"$BENCH" mlperf "$workload" --count 1 --runs 1 --seconds 0.05 --bytes "$bytes" --threads 4 "$@"
}

layout() { # WORKLOAD BYTES
	mlperf "$1" "$2" --target "posix:$DIR" --keep >"$DIR/out" 2>"$DIR/err" || { cat "$DIR/err"; return 1; }
	root=$(sed -n 's/^kept: //p' "$DIR/err")
	# "# unet3d: 7 files of 1 samples, ..."
	/usr/bin/python3 test/e2e/dlio_layout.py "$root" "$1" $(sed -n 's/^# [a-z0-9]*: \([0-9]*\) files of \([0-9]*\) .*/\1 \2/p' "$DIR/out") || return 1
	rm -rf "$root"
}
check "unet3d is as DLIO makes it" layout unet3d 300M
check "resnet50" layout resnet50 60M
check "retinanet" layout retinanet 20M
check "dlrm" layout dlrm 60M
if [ "${TEST_LENGTH:-long}" != short ]; then
	check "cosmoflow" layout cosmoflow 300M
	check "bert" layout bert 20M
	check "flux" layout flux 640M
fi

for transport in shm tcp tls; do
	check "files over $transport" mlperf retinanet 20M --target weka:$transport --drive mem:256M
done
check "large files over shm" mlperf unet3d 300M --target weka:shm --drive mem:1G
check "ranges over tcp" mlperf resnet50 60M --target weka:tcp --drive mem:256M
check "column chunks over shm" mlperf dlrm 60M --target weka:shm --drive mem:256M
check "by O_DIRECT" mlperf retinanet 20M --target "direct:$DIR"
check "by io_uring" mlperf dlrm 60M --target "uring:$DIR"
# A checkpoint of 40 MB: files of more than one write.
for target in weka:shm weka:tcp "posix:$DIR"; do
	check "a checkpoint over ${target%%:/*}" "$BENCH" checkpoint llama3-8b --ranks 2 --runs 1 --bytes 40M \
		--target "$target" --drive mem:256M
	check "key-value caches over ${target%%:/*}" "$BENCH" kvcache 70b --runs 1 --seconds 0.2 --bytes 40M \
		--target "$target" --drive mem:256M
done
refuses "an accelerator that it does not have" "has no b200" "$BENCH" mlperf bert --target null: --accelerator b200

# One system that cannot be measured does not take the others with it.
leaves_out() { # COMMAND OPTION...
	"$BENCH" "$@" --runs 1 --seconds 0.05 --bytes 20M --target "posix:$DIR/nowhere" --target weka:shm --drive mem:256M \
		>"$DIR/out" 2>"$DIR/err"
	[ $? = 1 ] && grep -q "^weka-bench: posix:$DIR/nowhere is left out" "$DIR/err" && grep -q ' weka:shm ' "$DIR/out"
}
check "mlperf leaves out what fails" leaves_out mlperf cosmoflow --count 1
check "compare" leaves_out compare --quick --only "4 KiB by name"
check "checkpoint" leaves_out checkpoint llama3-8b --ranks 2

left() { ls -d "$DIR"/weka-bench.* 2>/dev/null; } # in /dev/shm are those of others, too
is "nothing is left" "" "$(left)"
finish

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Everything that proves the tree, stage by stage; goes on when one fails.
# TEST_LENGTH is short (make test), long (test-long) or proof: how many runs; and what takes long and
# seldom finds anything is not in the short one at all (CONTRIBUTING.md).
set -u
: "${BUILD:=build}" "${MAKE:=make}" "${TEST_LENGTH:=short}"
export TEST_LENGTH
export RESULTS=$BUILD/results
mkdir -p "$BUILD"
RESULTS=$(realpath "$RESULTS")
rm -f "$RESULTS" "$RESULTS.failed" "$BUILD/test-total"
: >"$RESULTS"
case $TEST_LENGTH in
short) fuzz=1 ;;
long)  fuzz=60; export TEST_TIMEOUT=3600 ;;
proof) fuzz=600; export TEST_TIMEOUT=86400 ;;
*)     echo "TEST_LENGTH=$TEST_LENGTH: one of short long proof" >&2; exit 2 ;;
esac

# Longer runs take hours, and a proof days.  One that was stopped, or in which something failed, goes on
# where it was when it is called again for the same tree.
if [ "$TEST_LENGTH" != short ] && commit=$(git rev-parse HEAD 2>/dev/null); then
	export PASSED="$BUILD/passed"
	mkdir -p "$PASSED"
	PASSED=$(realpath "$PASSED")
	TREE_ID=$({ echo "$commit"; git diff HEAD; } | sha256sum | cut -c 1-16)
	export TREE_ID
fi

begin=$(date +%s)

# stage NAME TARGET...: a stage that broke without counting a failure, as one that does not build,
# has one.
stage() {
	name=$1
	shift
	before=$(wc -l <"$RESULTS")
	start=$(date +%s)
	printf '== %s\n' "$name"
	# Not a sub-make of the make that called us: it brings its own number of jobs.
	MAKEFLAGS= "$MAKE" --no-print-directory BUILD="$BUILD" "$@" && return
	# A target that failed has a line with failures, or, if all was skipped, one with nothing.
	awk -v before="$before" 'NR > before && ($3 > 0 || $2 + $3 == 0) { told = 1 } END { exit !told }' "$RESULTS" ||
		echo "$name 0 1 $(($(date +%s) - start))" >>"$RESULTS"
}

jobs=-j$(nproc)
stage build       "$jobs" all
stage tidy        "$jobs" tidy
stage unit        "$jobs" unit lib-check
export APP_CORES=4 # the appliance's clients are then not where the store is
stage asan        check-asan
unset APP_CORES
stage torture     check-tsan
stage simulation  sim
stage fuzz        fuzz FUZZ_SECONDS=$fuzz
stage end-to-end  e2e
stage guest       "$jobs" test-guest

# Whatever has an appliance, with each number of cores; above every script and every seed has its own.
# Runs are as many as in make test, but for what is shorter there than it was made for.
if [ "$TEST_LENGTH" != short ]; then
	stage "asan, 1"    check-asan T=app_
	faults="client link appliance qp_client qp_appliance"
	stage "image"      test-image
	for n in 1 2 4; do
		export APP_CORES=$n TEST_LENGTH=short
		stage "unit, $n"       "$jobs" TEST_LENGTH=long unit T=app_
		stage "simulation, $n" sim
		stage "end-to-end, $n" WHOLE=1 KILLS=20 e2e
		stage "guest, $n"      "$jobs" WHOLE=1 WIDTHS="39 48" test-guest T=tree
		stage "rdma, $n"       "$jobs" FAULTS="$faults" test-guest T=rdma
	done
fi

echo "== summary"
awk '{ printf "  %-14s %5d passed %4d failed %5d s\n", $1, $2, $3, $4; pass += $2; fail += $3 }
	END { if (pass + fail == 0) fail = 1; print pass + 0, fail + 0 > total }' total="$BUILD/test-total" "$RESULTS"
read -r passed failed <"$BUILD/test-total"
echo "  everything in $(($(date +%s) - begin)) s"
[ ! -s "$RESULTS.failed" ] || { echo "== what failed"; cat "$RESULTS.failed"; }
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && rm -rf "${PASSED:-}" # the next one begins anew

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Each rule that a file's head numbers is asserted, or names its test; and each folder has as many
# asserts a function as its row in test/rules.list demands: test/rules.py counts.
set -u
cd "$(dirname "$0")/.." || exit 2
: "${BUILD:=build}"
work=$BUILD/out/rules.d
rm -rf "$work" && mkdir -p "$work/sample"
command -v python3 >/dev/null || { echo "ok # not looked at here: no python3"; exit 0; }

# The sample has each mistake once, and each kind of rule that is checked.
cat >"$work/sample/good.c" <<'SAMPLE'
/*
 * A list.
 *
 * Invariants:
 *
 *  (1) The count is that of the list.
 *  (2) Nobody waits, or if so, then as (1)
 *      says [test_meta_log, sim/order].
 *  (3) The other file asserts this one.
 */
struct counts {
	int n; /* (1) */
};

/* (2) */
static void count(int n)
{
	ASSERT(n >
	       0); /* (1) */
}
SAMPLE
cat >"$work/sample/bad.c" <<'SAMPLE'
/*
 * Another one.
 *
 *  (1) Nothing checks this rule (2).
 *  (2) It names a test that does not exist [test_of_nothing].
 *  (3) It names a test that its file does not have [test_meta_log:of_nothing].
 */
static void both(int n)
{
	/* good.c (3): the rest of the reason */
	ASSERT(n);
	ASSERT(n); /* (7) */
	n++; /* (1) */
}
SAMPLE
cat >"$work/sample/plain.h" <<'SAMPLE'
/* Invariant: a rule without a number. */
SAMPLE
echo "$work/sample 0 200" >"$work/list"
python3 test/rules.py "$work/list" "$work/sample" >"$work/out"
sample=$work/sample
while read -r want; do
	if grep -qF "$want" "$work/out"; then
		echo "ok finds: ${want##*/}"
	else
		echo "not ok finds: ${want##*/}"
	fi
done <<WANT
$sample/bad.c:4: rule (1): neither
$sample/bad.c:5: rule (2) names test_of_nothing
$sample/bad.c:6: rule (3) names test_meta_log:of_nothing
$sample/bad.c:12: an assert cites (7)
$sample/plain.h:1: an invariant without a number
$work/list:1: $sample has 1 rules that nothing checks, not 0
$work/list:1: $sample has 150 asserts in 100 functions, not 200
6 rules, 1 without a check; 3 asserts in 2 functions
WANT
[ "$(wc -l <"$work/out")" = 8 ] || { echo "not ok finds nothing else"; cat "$work/out"; }

if python3 test/rules.py test/rules.list base nvme meta fabric appliance client-lib bench >"$work/out"; then
	echo "ok $(tail -n 1 "$work/out")"
else
	echo "not ok $(tail -n 1 "$work/out")"
	cat "$work/out"
	exit 1
fi

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# test/orderings.py finds each mistake with labels of orderings, and nothing in a correct file.
set -u
cd "$(dirname "$0")/.." || exit 2
: "${BUILD:=build}"
work=$BUILD/out/orderings.d
rm -rf "$work" && mkdir -p "$work"
command -v python3 >/dev/null || { echo "ok # not looked at here: no python3"; exit 0; }

cat >"$work/good.c" <<'SAMPLE'
/*
 *   R1 -> A1   a slot is filled before head counts it
 *   S2 -> Z2   (mate.c) the last use of a slot comes before tail frees it
 *   B1 -> device   an entry is stored before the doorbell
 *   E1 -> T1   (mate.c) this thread is inside before it reads the owner
 */
static inline void dma_wmb(void)
{
	__asm__ volatile("" ::: "memory");
}

static void put(void)
{
	atomic_store_explicit(&head, 1, memory_order_release); /* R1 */
	/* A1, in words: it is there. */
	while (atomic_load_explicit(&head, memory_order_acquire) !=
	       3)
		;
	atomic_store_explicit(&tail, 1, /* S2 */
			      memory_order_release);
	atomic_store_explicit(&count, 1, memory_order_relaxed);
	dma_wmb(); /* B1 */
	__asm__ volatile("" ::: "memory"); /* E1 */
}

static void next(int made)
{
	static _Atomic int count;

	atomic_fetch_add_explicit(&count, made, memory_order_relaxed);
	puts("count");
}
SAMPLE
cat >"$work/mate.c" <<'SAMPLE'
/* S2 -> Z2 (good.c), E1 -> T1 (good.c) */
static int take(void)
{
	syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0); /* T1 */
	return atomic_load_explicit(&tail, memory_order_acquire); /* Z2 */
}
SAMPLE
# Each of these names the other, and none has an access with A4.
cat >"$work/lost.c" <<'SAMPLE'
/* R4 -> A4 (A4 in lost_too.c) what is written before it can be read */
static void put(void)
{
	atomic_store_explicit(&head, 1, memory_order_release); /* R4 */
}
SAMPLE
cat >"$work/lost_too.c" <<'SAMPLE'
/* R4 -> A4 (lost.c) */
static int take(void)
{
	/* A4 */
	return atomic_load_explicit(&head, memory_order_relaxed);
}
SAMPLE
cat >"$work/bad.c" <<'SAMPLE'
/*
 *   R1 -> A1   a slot is filled before head counts it
 *   R2 -> A2
 *   R3 -> A3   (good.c) what good.c has no label for
 */
static void put(void)
{
	atomic_store_explicit(&head, 1, memory_order_release); /* R1 */
	atomic_exchange_explicit(&head, 1, memory_order_acq_rel); /* R2, A2 */
	atomic_exchange_explicit(&head, 1, memory_order_seq_cst); /* R3 */

	/* R1: of the next statement */
	n = 0;
	n = __atomic_load_n(&head, __ATOMIC_ACQUIRE);
	atomic_load_explicit(&head, memory_order_acquire); /* B7 */
}

static void next(void)
{
	static _Atomic(int) count;

	count++;
	atomic_fetch_add(&head, atomic_load(&count));
	dma_rmb();
	__asm__ volatile("" ::: "memory"); /* the order is kept */
	syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}
SAMPLE
python3 test/orderings.py "$work"/*.c >"$work/out"
while read -r want; do
	if grep -qF "$want" "$work/out"; then echo "ok finds: $want"; else echo "not ok finds: $want"; fi
done <<'WANT'
bad.c:2: R1 -> A1: nothing has A1 here
bad.c:3: what does R2 -> A2 order?
bad.c:4: R3 -> A3: nothing has A3 here
bad.c:14: this ordering has no label
bad.c:15: this ordering has no label
bad.c:22: this atomic access does not name its order
bad.c:23: this atomic access does not name its order
bad.c:24: this ordering has no label
bad.c:25: this ordering has no label
bad.c:26: this ordering has no label
lost.c:1: R4 -> A4: nothing has A4 here
lost_too.c:1: R4 -> A4: nothing has A4 here
WANT
if [ "$(wc -l <"$work/out")" = 13 ]; then
	echo "ok and nothing else"
else
	echo "not ok and nothing else"
	sed 's/^/  /' "$work/out"
fi

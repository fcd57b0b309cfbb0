/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Device registers, and the order of memory accesses as the device sees it.
 *
 *   B1 -> device   (B1 in nvme_qpair.c) an entry is stored before the doorbell that announces it
 *   device -> B2   (B2 in nvme_qpair.c) the phase bit is loaded before the rest of the entry, which
 *                  the device stored before the bit
 *   B3 -> B4       (B4 in nvme_soft_queue.c) the driver stores its word before it looks whether the
 *                  device sleeps; the device says that it sleeps before it looks at the word again.
 *                  So one of the two sees the other
 */
#ifndef NVME_MMIO_H
#define NVME_MMIO_H

#include <stdint.h>

static inline void mmio_write32(volatile uint32_t *reg, uint32_t value)
{
	*reg = value;
}

static inline uint32_t mmio_read32(const volatile uint32_t *reg)
{
	return *reg;
}

/* Our stores to DMA memory are visible to the device before any later register write. */
static inline void dma_wmb(void)
{
#if defined(__x86_64__)
	__asm__ volatile("" ::: "memory"); /* TSO, and BARs are uncached: enough */
#elif defined(__aarch64__)
	__asm__ volatile("dmb oshst" ::: "memory");
#else
#error "port dma_wmb"
#endif
}

/* Makes the device's stores before the word just read visible to later loads. */
static inline void dma_rmb(void)
{
#if defined(__x86_64__)
	__asm__ volatile("" ::: "memory");
#elif defined(__aarch64__)
	__asm__ volatile("dmb oshld" ::: "memory");
#else
#error "port dma_rmb"
#endif
}

/* Makes our earlier stores visible to the device before we load its stores: no store waits. */
static inline void dma_mb(void)
{
#if defined(__x86_64__)
	__asm__ volatile("lock addl $0, -4(%%rsp)" ::: "memory", "cc");
#elif defined(__aarch64__)
	__asm__ volatile("dmb osh" ::: "memory");
#else
#error "port dma_mb"
#endif
}

/*
 * Tells the device of `now`, where it was last told of `was`.  If it has a word in memory for that
 * (shadow, and event: where it wants to be woken), the doorbell is written only when the device
 * asked to be woken somewhere in (was .. now]; base B.5.
 */
static inline void mmio_ring(volatile uint32_t *doorbell, volatile uint32_t *shadow, /* DMA */
			     const volatile uint32_t *event, uint32_t was, uint32_t now)
{
	if (shadow) {
		*shadow = now;
		dma_mb(); /* B3 */
		if ((uint16_t)(now - *event - 1) >= (uint16_t)(now - was))
			return;
	}
	mmio_write32(doorbell, now);
}

#endif

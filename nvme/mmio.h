/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Device registers, and the order of memory as the device sees it. */
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

/* What the device stored before the word we have just read is visible to later loads. */
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

#endif

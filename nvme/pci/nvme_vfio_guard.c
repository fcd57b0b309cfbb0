/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * An access to a BAR whose device is gone may raise SIGBUS.  Then the BAR is replaced by what a bus
 * returns for an absent device: ones, and writes without effect.
 *
 *   base  --mmap-->  the device's registers        (before)
 *   base  --mmap-->  a private file of ones        (tripped; the access is tried again)
 *
 * Any other SIGBUS goes to the previous handler.
 *
 *   R1 -> A1   a guard's size and file are stored before its base can be found
 *
 * Invariants:
 *
 *  (1) base is 0, or the guard's memory is mapped.  The handler reads guards without a lock;
 *      adding and removing them is under one
 *      [test_nvme_vfio:registers_of_a_device_that_is_gone_are_ones,
 *      test_nvme_vfio:access_after_the_guard_has_gone_ends_the_process].
 *  (2) The handler calls mmap() and write() only: system calls, which take no lock of this
 *      process [test_nvme_vfio:access_after_the_device_has_gone_allocates_nothing].
 */
#define _GNU_SOURCE
#include "nvme/pci/nvme_vfio.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GUARDS_MAX 128u

struct guard {
	_Atomic uintptr_t base; /* 0: free */
	uint64_t size_bytes;
	int ones_fd;
	int tell_fd; /* -1: none */
};

static struct guard guards[GUARDS_MAX + 1]; /* [0] is not used */
static struct sigaction before;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool trip(const struct guard *g, uintptr_t base)
{
	return mmap((void *)base, g->size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
		    g->ones_fd, 0) != MAP_FAILED;
}

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
	uintptr_t addr = (uintptr_t)info->si_addr;
	int saved_errno = errno;
	uint64_t one = 1;

	(void)context;
	for (uint32_t i = 1; i <= GUARDS_MAX && info->si_code > 0; i++) {
		struct guard *g = &guards[i];
		uintptr_t base = atomic_load_explicit(&g->base, memory_order_acquire); /* A1 */

		if (!base || addr < base || addr - base >= g->size_bytes || !trip(g, base))
			continue;
		if (g->tell_fd >= 0)
			(void)!write(g->tell_fd, &one, sizeof(one));
		errno = saved_errno;
		return;
	}
	(void)sigaction(SIGBUS, &before, NULL); /* the next attempt finds the earlier owner */
	if (info->si_code <= 0)
		(void)raise(sig);
}

static int install_once(void)
{
	static bool installed;
	struct sigaction action = { .sa_sigaction = on_sigbus,
				    .sa_flags = SA_SIGINFO | SA_ONSTACK };

	if (installed)
		return 0;
	if (sigaction(SIGBUS, &action, &before))
		return -errno;
	installed = true;
	return 0;
}

static int make_ones(uint64_t size_bytes)
{
	int fd = memfd_create("weka-ones", MFD_CLOEXEC);
	void *p;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)size_bytes) < 0)
		goto close_fd;
	p = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		goto close_fd;
	memset(p, 0xff, size_bytes);
	munmap(p, size_bytes);
	return fd;

close_fd:
	close(fd);
	return -ENOMEM;
}

static int add_locked(void *base, uint64_t size_bytes, int tell_fd, uint32_t *guard)
{
	uint32_t i = 1;
	int fd, err = install_once();

	if (err)
		return err;
	while (i <= GUARDS_MAX && atomic_load_explicit(&guards[i].base, memory_order_relaxed))
		i++;
	if (i > GUARDS_MAX)
		return -ENOSPC;
	fd = make_ones(size_bytes);
	if (fd < 0)
		return fd;
	guards[i].size_bytes = size_bytes;
	guards[i].ones_fd = fd;
	guards[i].tell_fd = tell_fd;
	atomic_store_explicit(&guards[i].base, (uintptr_t)base, memory_order_release); /* R1 */
	*guard = i;
	return 0;
}

int nvme__guard_add(void *base, uint64_t size_bytes, int tell_fd, uint32_t *guard)
{
	int err;

	ASSERT((uintptr_t)base % (uintptr_t)sysconf(_SC_PAGESIZE) == 0 && size_bytes > 0);
	pthread_mutex_lock(&lock);
	err = add_locked(base, size_bytes, tell_fd, guard);
	pthread_mutex_unlock(&lock);
	return err;
}

void nvme__guard_trip(uint32_t guard)
{
	ASSERT(guard > 0 && guard <= GUARDS_MAX);
	ASSERT(trip(&guards[guard],
		    atomic_load_explicit(&guards[guard].base, memory_order_relaxed)));
}

void nvme__guard_remove(uint32_t guard)
{
	ASSERT(guard > 0 && guard <= GUARDS_MAX);
	pthread_mutex_lock(&lock);
	atomic_store_explicit(&guards[guard].base, 0, memory_order_relaxed);
	close(guards[guard].ones_fd);
	pthread_mutex_unlock(&lock);
}

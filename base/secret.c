/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Pages for keys.
 *
 * Invariant: (1) they contain only keys, so dumps can leave all of them out
 * [test_base_secret:is_left_out_of_dumps_kept_out_of_swap_and_not_for_children].
 */
#define _GNU_SOURCE
#include "base/secret.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t whole_pages(size_t size_bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (size_bytes + page - 1) / page * page;
}

int secret_create(size_t size_bytes, void **out, bool *locked)
{
	size_t bytes = whole_pages(size_bytes);
	void *memory;
	bool in_memory;

	ASSERT(size_bytes > 0 && size_bytes <= bytes);
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return -ENOMEM;
	if (madvise(memory, bytes, MADV_DONTDUMP) || madvise(memory, bytes, MADV_WIPEONFORK)) {
		munmap(memory, bytes);
		return -ENOMEM;
	}
	in_memory = mlock(memory, bytes) == 0;
	if (locked)
		*locked = in_memory;
	*out = memory;
	return 0;
}

void secret_destroy(void *memory, size_t size_bytes)
{
	if (!memory)
		return;
	secret_wipe(memory, size_bytes);
	ASSERT(munmap(memory, whole_pages(size_bytes)) == 0);
}

void secret_wipe(void *memory, size_t size_bytes)
{
	explicit_bzero(memory, size_bytes);
}

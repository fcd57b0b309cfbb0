/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * malloc and similar calls, in front of libc's: each checks the seal, then calls libc.
 *
 * It is not in libbase.a, or every program that calls malloc would get it; a program names it as an
 * object of its own.  Empty under sanitizers, which have their own malloc.
 */
#include "base/seal.h"
#include "base/num.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#if !SEAL_SANITIZED

/* glibc's own names of these functions; part of its ABI since 2.2.5. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void *__libc_memalign(size_t align, size_t size);
extern void __libc_free(void *p);

void *malloc(size_t size)
{
	seal_check("malloc");
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	seal_check("calloc");
	return __libc_calloc(count, size);
}

void *realloc(void *p, size_t size)
{
	seal_check("realloc");
	return __libc_realloc(p, size);
}

void free(void *p)
{
	seal_check("free");
	__libc_free(p);
}

void *memalign(size_t align, size_t size)
{
	seal_check("memalign");
	return __libc_memalign(align, size);
}

void *aligned_alloc(size_t align, size_t size)
{
	seal_check("aligned_alloc");
	return __libc_memalign(align, size);
}

int posix_memalign(void **out, size_t align, size_t size)
{
	void *p;

	seal_check("posix_memalign");
	if (!is_pow2(align) || align % sizeof(void *) != 0)
		return EINVAL;
	p = __libc_memalign(align, size);
	if (!p)
		return ENOMEM;
	*out = p;
	return 0;
}

#endif

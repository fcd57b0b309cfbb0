/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * libc's own functions, found behind the hooks of the same name.
 *
 *  R1 -> R2: the table is filled in before it is seen to be.  Two threads may fill it in at once:
 *  both store the same.
 */
#define _GNU_SOURCE
#include "client-lib/preload/preload.h"

#include <dlfcn.h>

static struct preload_real real;
static atomic_bool is_there;

static wk_cold void find_all(void)
{
#define PRELOAD_ONE(name) *(void **)&real.name = dlsym(RTLD_NEXT, #name);
	PRELOAD_REALS(PRELOAD_ONE)
#undef PRELOAD_ONE
	ASSERT(real.open && real.fcntl && real.close);
	atomic_store_explicit(&is_there, true, memory_order_release); /* R1 */
}

const struct preload_real *preload_real(void)
{
	if (unlikely(!atomic_load_explicit(&is_there, memory_order_acquire))) /* R2 */
		find_all();
	return &real;
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * libweka-client is loaded by the first call on a path of the appliance's, so programs that make
 * none start as fast as without it, and its own libraries do not come before the program's.  It
 * lies beside this library, or where the system looks for libraries.
 *
 *  L1 -> L2: the table is filled in before it is seen to be.
 */
#define _GNU_SOURCE
#include "client-lib/preload/preload.h"

#include "client-lib/preload/preload_load.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#define NAME "libweka-client.so.0"

static struct preload_weka weka;
static _Atomic(const struct preload_weka *) loaded;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void *load_beside(void)
{
	char path[PRELOAD_TEXT];
	const char *slash;
	Dl_info info;

	if (!dladdr((void *)&weka, &info) || !info.dli_fname)
		return NULL;
	slash = strrchr(info.dli_fname, '/');
	if (!slash || !preload_join(path, info.dli_fname, (size_t)(slash - info.dli_fname), NAME))
		return NULL;
	return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

static void load(void)
{
	void *so = load_beside();
	bool is_whole;

	if (!so)
		so = dlopen(NAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	is_whole = so != NULL;
#define PRELOAD_ONE(name)                                                                          \
	*(void **)&weka.name = so ? dlsym(so, #name) : NULL;                                       \
	is_whole = is_whole && weka.name;
	PRELOAD_CALLS(PRELOAD_ONE)
#undef PRELOAD_ONE
	if (is_whole)
		atomic_store_explicit(&loaded, &weka, memory_order_release); /* L1 */
	else
		fprintf(stderr, "libweka-preload: cannot load %s: %s\n", NAME,
			so ? "it is of another version" : dlerror());
}

const struct preload_weka *preload_weka(void)
{
	const struct preload_weka *w = atomic_load_explicit(&loaded, memory_order_acquire); /* L2 */

	if (likely(w))
		return w;
	pthread_once(&once, load);
	return atomic_load_explicit(&loaded, memory_order_acquire); /* L2 */
}

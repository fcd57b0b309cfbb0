/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The state of the seal: one word a thread, and no allocation in anything here. */
#include "base/seal.h"
#include "base/assert.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Thread_local enum seal_mode mode;
static _Thread_local uint64_t count;

void seal_thread(void)
{
	mode = SEAL_ABORT;
}

void seal_thread_count(void)
{
	mode = SEAL_COUNT;
	count = 0;
}

void seal_thread_open(void)
{
	mode = SEAL_OPEN;
}

enum seal_mode seal_thread_lift(void)
{
	enum seal_mode was = mode;

	mode = SEAL_OPEN;
	return was;
}

void seal_thread_back(enum seal_mode was)
{
	mode = was;
}

uint64_t seal_count(void)
{
	return count;
}

bool seal_works(void)
{
	enum seal_mode mode_was = mode;
	uint64_t count_was = count;
	/* The compiler knows that free() changes nothing here; it must not see that this is free().
	 */
	void (*volatile release)(void *) = free; /* volatile: not a constant */
	bool works;

	seal_thread_count();
	release(NULL); /* counted by our malloc, a no-op in libc's */
	works = count == 1;
	mode = mode_was;
	count = count_was;
	return works;
}

static wk_cold void broken(const char *what)
{
	static const char text[] = ": called in a thread that is sealed against malloc\n";

	mode = SEAL_OPEN; /* abort() and a debugger's calls may allocate */
	if (write(STDERR_FILENO, what, strlen(what)) < 0 ||
	    write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		abort();
	abort();
}

void seal_check(const char *what)
{
	if (likely(mode == SEAL_OPEN))
		return;
	count++;
	if (mode == SEAL_ABORT)
		broken(what);
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Memory for keys, as the kernel sees it. */
#include "base/secret.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The kernel's flags of the mapping at `memory`: "dd" is left out of dumps, "lo" locked, "wf" wiped
 * on fork. */
static void flags_of(const void *memory, char *out, size_t out_size)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	char line[512];
	bool ours = false;
	unsigned long from, to;

	cr_assert_not_null(f);
	out[0] = 0;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			ours = (uintptr_t)memory >= from && (uintptr_t)memory < to;
		if (ours && strncmp(line, "VmFlags:", 8) == 0)
			snprintf(out, out_size, "%s", line + 8);
	}
	fclose(f);
}

Test(base_secret, is_left_out_of_dumps_kept_out_of_swap_and_not_for_children)
{
	char flags[512];
	bool locked;
	void *memory;

	cr_assert_eq(secret_create(100, &memory, &locked), 0);
	flags_of(memory, flags, sizeof(flags));
	cr_assert_not_null(strstr(flags, " dd"), "%s", flags);
	cr_assert_not_null(strstr(flags, " wf"), "%s", flags);
#ifndef __SANITIZE_ADDRESS__ /* its mlock() only says that it did */
	cr_assert_eq(locked, strstr(flags, " lo") != NULL, "%s", flags);
#endif
	secret_destroy(memory, 100);
}

Test(base_secret, a_child_finds_zeros)
{
	char *memory;
	void *at;
	int status;
	pid_t child;

	cr_assert_eq(secret_create(5000, &at, NULL), 0);
	memory = at;
	memset(memory, 'k', 5000);
	child = fork();
	if (child == 0) {
		int left = 0;

		for (int i = 0; i < 5000; i++)
			left |= memory[i];
		_exit(left);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	cr_assert_eq(memory[4999], 'k');
	secret_destroy(memory, 5000);
}

/* Destroying NULL does nothing, and leaves another secret as it is. */
Test(base_secret, nothing_is_nothing)
{
	uint8_t *memory;
	void *at;

	cr_assert_eq(secret_create(100, &at, NULL), 0);
	memory = at;
	memset(memory, 'k', 100);
	secret_destroy(NULL, 100);
	for (int i = 0; i < 100; i++)
		cr_assert_eq(memory[i], 'k');
	secret_destroy(memory, 100);
}

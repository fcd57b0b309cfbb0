/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The loop that measures all targets costs less than 3 % at a million operations a second: 30 ns
 * each, in which a processor of 3 GHz that executes 4 instructions in 3 cycles executes 120.  They
 * are counted one by one (ptrace), so that the result depends on neither the machine nor its load.
 */
#include "bench/target/target.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define GROUP  256u
#define GROUPS 1u
#ifdef WK_DEBUG /* not optimised, sanitizers */
#define LIMIT 3000u
#else
#define LIMIT 120u
#endif

struct limited {
	struct target_files files;
	uint32_t left;
};

static bool next(void *ctx, struct target_group *g)
{
	struct limited *l = ctx;

	return l->left-- > 0 && target_files_next(&l->files, g);
}

static int run(struct target_loop *loop, struct limited *l, uint32_t groups)
{
	struct target_figures figures = { 0 };

	l->left = groups;
	if (target_loop_run(loop, 1000, &figures))
		return 1;
	return figures.ops == (uint64_t)groups * GROUP ? 0 : 1;
}

/* In the child: a warm-up, then the loop between two stops. */
static void traced(void)
{
	struct limited l = { .files = { .dir = "small",
					.count = 100000,
					.bytes = 4096,
					.op = TARGET_READ,
					.random = true } };
	struct target_options options = { .core_server = -1 };
	struct target_loop loop = { .depth = 4, .next = next, .ctx = &l };
	struct target *t;
	int err = 1;

	loop.groups = target_groups_create(loop.depth, GROUP);
	if (!loop.groups || target_open(&t, "null:", &options) ||
	    target_session_open(t, &loop.session))
		_exit(1);
	err = run(&loop, &l, 4);
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
		_exit(1);
	raise(SIGUSR1);
	err |= run(&loop, &l, GROUPS);
	raise(SIGUSR2);
	_exit(err);
}

/* Instructions of the child from its first stop to its second. */
static uint64_t count_steps(pid_t pid)
{
	uint64_t steps = 0;
	int status;

	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFSTOPPED(status) && WSTOPSIG(status) == SIGUSR1);
	for (;;) {
		cr_assert_eq(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		cr_assert(WIFSTOPPED(status));
		if (WSTOPSIG(status) == SIGUSR2)
			break;
		steps++;
	}
	cr_assert_eq(ptrace(PTRACE_CONT, pid, NULL, NULL), 0);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	return steps;
}

Test(bench_loop, costs_less_than_3_percent_of_a_microsecond)
{
	uint64_t each;
	pid_t pid = fork();

	if (pid == 0)
		traced();
	each = count_steps(pid) / ((uint64_t)GROUP * GROUPS);
	cr_assert_gt(each, 0);
	cr_assert_leq(each, LIMIT, "%llu instructions each", (unsigned long long)each);
}

/* A file's name ends with its number in eight hexadecimal digits. */
Test(bench_loop, names_files_by_hexadecimal_numbers)
{
	struct target_files f = { .dir = "dir", .first = 0x9ab, .count = 0xc0ffee, .bytes = 1 };
	struct target_group *g = target_groups_create(1, 1);

	cr_assert(target_files_next(&f, g));
	cr_assert_str_eq(g->io[0].path, "dir/f000009ab");
	f.next = 0xc0ffee - 0x9ab - 1;
	cr_assert(target_files_next(&f, g));
	cr_assert_str_eq(g->io[0].path, "dir/f00c0ffed");
	target_groups_destroy(g);
}

Test(bench_loop, counts_each_operation_once)
{
	struct limited l = { .files = { .dir = "d", .count = 10, .bytes = 7, .op = TARGET_READ } };
	struct target_options options = { .core_server = -1 };
	struct target_loop loop = { .depth = 3, .next = target_files_next, .ctx = &l.files };
	struct target_figures figures = { 0 };
	struct target *t;

	cr_assert_eq(target_open(&t, "null:", &options), 0);
	cr_assert_eq(target_session_open(t, &loop.session), 0);
	loop.groups = target_groups_create(loop.depth, 4);
	cr_assert_eq(target_loop_run(&loop, 1000, &figures), 0);
	cr_assert_eq(figures.ops, 10);
	cr_assert_eq(figures.bytes, 70);
	target_groups_destroy(loop.groups);
	target_session_close(loop.session);
	target_close(t);
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Hooks: other processes.  The files that they inherit must be the kernel's: an open file has one
 * offset for all of its processes, and a program that is executed knows nothing of the table.
 *
 *     fork()             by a handler (preload_session.c)
 *     vfork()            here; its child has this process's memory, so hooks do nothing there
 *     posix_spawn() ...  here: all files, since one may be given another number
 *     exec() ...         here: only those that stay open
 */
#define _GNU_SOURCE
#include "client-lib/preload/preload_hook.h"

#include <stdarg.h>
#include <string.h>

#define ARGS_MAX 4096

#define SPAWN(result, name, args, ...)                                                             \
	PRELOAD_HOOK result name args                                                              \
	{                                                                                          \
		preload_settle_all(false);                                                         \
		return REAL->name(__VA_ARGS__);                                                    \
	}
#define EXEC(name, args, ...)                                                                      \
	PRELOAD_HOOK int name args                                                                 \
	{                                                                                          \
		preload_settle_all(true);                                                          \
		return REAL->name(__VA_ARGS__);                                                    \
	}

/* clang-format off */
SPAWN(int, posix_spawn, (pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
      const posix_spawnattr_t *attr, char *const argv[], char *const env[]),
      pid, path, actions, attr, argv, env)
SPAWN(int, posix_spawnp, (pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
      const posix_spawnattr_t *attr, char *const argv[], char *const env[]),
      pid, file, actions, attr, argv, env)
SPAWN(int, system, (const char *command), command)
SPAWN(FILE *, popen, (const char *command, const char *mode), command, mode)
EXEC(execve, (const char *path, char *const argv[], char *const env[]), path, argv, env)
EXEC(execvpe, (const char *file, char *const argv[], char *const env[]), file, argv, env)
EXEC(fexecve, (int fd, char *const argv[], char *const env[]), fd, argv, env)
/* clang-format on */

PRELOAD_HOOK int execveat(int dirfd, const char *path, char *const argv[], char *const env[],
			  int flags)
{
	struct preload_path p;

	preload_settle_all(true);
	if (preload_settle(dirfd, PRELOAD_CONTENT) != 0 && (flags & AT_EMPTY_PATH))
		return -1;
	if (!preload_path_lend(&p, dirfd, path))
		return preload_fail(-ENOENT);
	return (int)preload_path_real(&p, REAL->execveat(p.dirfd, path, argv, env, flags));
}

PRELOAD_HOOK int execv(const char *path, char *const argv[])
{
	return execve(path, argv, environ);
}

PRELOAD_HOOK int execvp(const char *file, char *const argv[])
{
	return execvpe(file, argv, environ);
}

/* Collects arguments up to a NULL; false: there are too many. */
static bool collect(const char *argv[ARGS_MAX], const char *first, va_list args)
{
	uint32_t count = 0;

	for (const char *arg = first; count < ARGS_MAX; arg = va_arg(args, const char *)) {
		argv[count++] = arg;
		if (!arg)
			return true;
	}
	return false;
}

#define EXEC_LIST(first, how)                                                                      \
	do {                                                                                       \
		const char *argv[ARGS_MAX];                                                        \
		va_list args;                                                                      \
		bool fits;                                                                         \
		va_start(args, first);                                                             \
		fits = collect(argv, first, args);                                                 \
		va_end(args);                                                                      \
		return fits ? (how) : preload_fail(-E2BIG);                                        \
	} while (0)

PRELOAD_HOOK int execl(const char *path, const char *arg, ...)
{
	EXEC_LIST(arg, execve(path, (char *const *)argv, environ));
}

PRELOAD_HOOK int execlp(const char *file, const char *arg, ...)
{
	EXEC_LIST(arg, execvpe(file, (char *const *)argv, environ));
}

PRELOAD_HOOK int execle(const char *path, const char *arg, ...)
{
	const char *argv[ARGS_MAX];
	char *const *env = NULL;
	va_list args;
	bool fits;

	va_start(args, arg);
	fits = collect(argv, arg, args);
	if (fits)
		env = va_arg(args, char *const *);
	va_end(args);
	return fits ? execve(path, (char *const *)argv, env) : preload_fail(-E2BIG);
}

/* ---- vfork() ------------------------------------------------------------------------------- */

/* Returns libc's vfork(). */
__attribute__((used)) void *preload_vfork_ready(void);

void *preload_vfork_ready(void)
{
	if (!preload_in_vfork()) {
		preload_settle_all(false);
		preload_vfork_begins();
	}
	return (void *)REAL->vfork;
}

/* A function that called vfork() could not return twice: its frame would be gone.  So this jumps
 * there, with the stack and the registers as they came. */
#if defined(__x86_64__)
__asm__(".text\n.globl vfork\n.type vfork, @function\nvfork:\n"
	"	sub $8, %rsp\n	call preload_vfork_ready\n	add $8, %rsp\n	jmp *%rax\n"
	".size vfork, . - vfork\n");
#elif defined(__aarch64__)
__asm__(".text\n.globl vfork\n.type vfork, %function\nvfork:\n"
	"	stp x29, x30, [sp, #-16]!\n	bl preload_vfork_ready\n"
	"	ldp x29, x30, [sp], #16\n"
	"	br x0\n.size vfork, . - vfork\n");
#else
PRELOAD_HOOK pid_t vfork(void)
{
	return fork();
}
#endif

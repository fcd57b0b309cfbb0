/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/lib/death.h"
#include "base/assert.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char said[1024];

const char *death_said(void)
{
	return said;
}

static void child(void (*act)(void), int err_fd)
{
	struct rlimit none = { 0 };

	(void)setrlimit(RLIMIT_CORE, &none);
	(void)signal(SIGABRT, SIG_DFL);
	if (dup2(err_fd, STDERR_FILENO) < 0)
		_exit(1);
	act();
	_exit(0); /* it lived */
}

bool dies_saying(void (*act)(void), const char *says)
{
	size_t len = 0;
	int fd[2], status = 0;
	ssize_t n;
	pid_t pid;

	ASSERT(pipe(fd) == 0);
	pid = fork();
	ASSERT(pid >= 0);
	if (pid == 0)
		child(act, fd[1]);
	close(fd[1]);
	while (len < sizeof(said) - 1 && (n = read(fd[0], said + len, sizeof(said) - 1 - len)) > 0)
		len += (size_t)n;
	said[len] = 0;
	close(fd[0]);
	ASSERT(waitpid(pid, &status, 0) == pid);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && strstr(said, says);
}

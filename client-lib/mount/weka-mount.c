/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * weka-mount: parses, goes into the background, connects, mounts, starts the workers, and waits for
 * a signal or the unmount.
 *
 *     parent: fork --------- waits ---------> exits with what the child says
 *     child:    connect, mount, negotiate ---> says so; serves
 *
 * The sessions are made after the fork, since a session does not survive one.
 */
#define _GNU_SOURCE
#include "client-lib/mount/mount.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

static struct mount_fs fs;

void mount_say(const struct mount_fs *of, const char *format, ...)
{
	char line[512];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (of->is_background)
		syslog(LOG_DAEMON | LOG_WARNING, "%s: %s", of->args.dir, line);
	fprintf(stderr, "weka-mount: %s\n", line);
}

/* ---- workers --------------------------------------------------------------------------------- */

static void *worker_main(void *of)
{
	mount_worker_run(of);
	kill(getpid(), SIGUSR1); /* the main thread waits for it */
	return NULL;
}

static int workers_start(int fuse_fd)
{
	for (uint32_t i = 0; i < fs.worker_count; i++) {
		struct mount_worker *w = &fs.worker[i];
		int err;

		w->fs = &fs;
		w->root_attr = fs.root_attr;
		w->fuse_fd = i == 0 ? fuse_fd : mount_clone(fuse_fd);
		err = w->fuse_fd < 0 ? w->fuse_fd : mount_worker_create(w);
		if (err)
			return err;
	}
	for (uint32_t i = 0; i < fs.worker_count; i++) {
		int err = pthread_create(&fs.worker[i].thread, NULL, worker_main, &fs.worker[i]);

		if (err)
			return -err;
	}
	return 0;
}

/* Waits for the workers, which end with the mount, and closes their sessions.  False: they have not
 * ended, since programs still have files open. */
static bool workers_end(void)
{
	const uint64_t until_ns = clock_wall_ns() + NS_PER_S;
	const struct timespec until = { .tv_sec = (time_t)(until_ns / NS_PER_S),
					.tv_nsec = (long)(until_ns % NS_PER_S) };

	for (uint32_t i = 0; i < fs.worker_count; i++)
		if (pthread_timedjoin_np(fs.worker[i].thread, NULL, &until))
			return false;
	for (uint32_t i = 0; i < fs.worker_count; i++)
		mount_worker_destroy(&fs.worker[i]);
	mount_disconnect(&fs);
	return true;
}

/* Waits until a signal asks for the end, or the file system was unmounted. */
static void serve(const sigset_t *signals)
{
	int got;

	do
		got = sigwaitinfo(signals, NULL);
	while (got < 0);
	if (got != SIGUSR1)
		(void)mount_unmount(&fs.args);
}

/* ---- the background -------------------------------------------------------------------------- */

/* Returns the descriptor to which the result is written; the parent exits here. */
static int to_background(void)
{
	int pipes[2], status = 1;
	pid_t child;

	if (pipe2(pipes, O_CLOEXEC) < 0 || (child = fork()) < 0) {
		fprintf(stderr, "weka-mount: %s\n", strerror(errno));
		exit(1);
	}
	if (child > 0) {
		close(pipes[1]);
		if (read(pipes[0], &status, sizeof(status)) != sizeof(status))
			status = 1;
		exit(status);
	}
	close(pipes[0]);
	setsid();
	return pipes[1];
}

static void leave_terminal(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC), log = -1;

	if (fs.args.log_file)
		log = open(fs.args.log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0 || chdir("/") < 0)
		return;
	dup2(fd, STDIN_FILENO);
	dup2(fd, STDOUT_FILENO);
	dup2(log < 0 ? fd : log, STDERR_FILENO);
}

static void ready(int to_parent, int status)
{
	if (to_parent < 0)
		return;
	if (write(to_parent, &status, sizeof(status)) < 0)
		_exit(1);
	close(to_parent);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int begin(void)
{
	int fuse_fd, err = mount_connect(&fs);

	if (err)
		return err;
	fuse_fd = mount_kernel(&fs.args);
	if (fuse_fd < 0)
		return fuse_fd;
	err = mount_negotiate(&fs, fuse_fd);
	if (!err)
		err = workers_start(fuse_fd);
	if (err)
		(void)mount_unmount(&fs.args);
	return err;
}

int main(int argc, char **argv)
{
	int to_parent = -1, status = mount_args_parse(&fs.args, argc, argv);
	char *dir;
	sigset_t signals;

	if (status || fs.args.fake)
		return status;
	dir = mount_directory(fs.args.dir);
	if (!dir) {
		fprintf(stderr, "weka-mount: %s: %s\n", fs.args.dir, strerror(errno));
		return 1;
	}
	fs.args.dir = dir;
	fs.is_background = !fs.args.foreground;
	if (fs.is_background)
		to_parent = to_background();
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, SIGUSR1);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	if (begin() < 0) {
		ready(to_parent, 1);
		return 1;
	}
	if (fs.is_background)
		leave_terminal();
	ready(to_parent, 0);
	serve(&signals);
	/* Programs that still have files open lose them with the process. */
	if (!workers_end())
		_exit(0);
	free(dir);
	return 0;
}

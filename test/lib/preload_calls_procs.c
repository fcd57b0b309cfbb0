/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Processes, threads, signals and mistakes, each as a case of test/tools/preload_calls.c. */
#define _GNU_SOURCE
#include "test/lib/preload_calls.h"

#include <aio.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static void await(const char *what, pid_t pid)
{
	int status = -1;

	did(what, pid > 0 ? 0 : -1);
	waitpid(pid, &status, 0);
	did("status", status);
}

CASE(fork)
{
	static const char *const files[] = { "small", "large" };
	char bytes[100];

	for (int f = 0; f < 2; f++) {
		int fd = get(files[f]);
		pid_t pid;

		did("read", read(fd, bytes, 100));
		pid = fork();
		if (pid == 0) {
			bool good = read(fd, bytes, 50) == 50 && lseek(fd, 0, SEEK_CUR) == 150;
			int other = get("dir/in");

			good = good && read(other, bytes, 100) == 100;
			_exit(good ? 3 : 4);
		}
		await("fork", pid);
		did("shared offset", lseek(fd, 0, SEEK_CUR));
		saw("rest", bytes, read(fd, bytes, 100));
		close(fd);
	}
}

static char *const no_env[] = { NULL };
/* Reads descriptor 7, and says by its status whether all is there. */
static const char counts[] = "[ $(wc -c <&7) = 4990 ]";

CASE(spawn)
{
	char *argv[] = { "sh", "-c", (char *)counts, NULL };
	posix_spawn_file_actions_t actions;
	char bytes[10], line[100] = "", command[PATH_MAX + 20];
	int fd = get("small"), status;
	FILE *f;
	pid_t pid;

	did("read", read(fd, bytes, 10));
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fd, 7);
	did("posix_spawn", posix_spawn(&pid, "/bin/sh", &actions, NULL, argv, no_env));
	await("spawned", pid);
	posix_spawn_file_actions_destroy(&actions);
	close(fd);
	fd = get("small");
	did("read", read(fd, bytes, 10));
	did("dup2", dup2(fd, 7));
	close(fd);
	pid = vfork();
	if (pid == 0) {
		execve("/bin/sh", argv, no_env);
		_exit(9);
	}
	await("vfork", pid);
	did("lseek", lseek(7, 10, SEEK_SET));
	pid = fork();
	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", counts, (char *)NULL);
		_exit(9);
	}
	await("execl", pid);
	did("lseek", lseek(7, 10, SEEK_SET));
	did("system", system("[ $(wc -c <&7) = 4990 ]"));
	close(7);
	snprintf(command, sizeof(command), "wc -c <'%s'", in("dir/in"));
	f = popen(command, "r");
	did("popen", f && fgets(line, sizeof(line), f) ? 0 : -1);
	say("%s", line);
	status = pclose(f);
	did("pclose", status);
}

/* A child of vfork() closes descriptors; the parent's stay. */
CASE(vfork)
{
	char bytes[100];
	int fd = get("small"), other;
	pid_t pid = vfork();

	if (pid == 0) {
		close(fd);
		closefrom(3);
		_exit(0);
	}
	await("vfork", pid);
	saw("parent", bytes, did("read", read(fd, bytes, 100)));
	close(fd);
	other = get("dir/in");
	saw("in", bytes, did("read", read(other, bytes, 100)));
	close(other);
}

CASE(sent)
{
	char control[CMSG_SPACE(sizeof(int))] = "", byte = 'x', bytes[100];
	struct iovec part = { &byte, 1 };
	struct msghdr m = { .msg_iov = &part,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	int pair[2], fd = get("small");

	did("read", read(fd, bytes, 10));
	did("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	did("sendmsg", sendmsg(pair[0], &m, 0));
	close(fd);
	did("recvmsg", recvmsg(pair[1], &m, 0));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	saw("received", bytes, did("read", read(fd, bytes, 100)));
	did("at", lseek(fd, 0, SEEK_CUR));
	closefrom(3);
}

#define THREADS 4

static int shared_fd;

static void *reads(void *arg)
{
	static const char *const files[] = { "small", "dir/in", "empty", "executable" };
	static const ssize_t sizes[] = { CALLS_SMALL, 100, 0, 10 };
	char bytes[CALLS_SMALL + 100];
	long sum = 0;

	(void)arg;
	for (int i = 0; i < 200; i++) {
		char path[PATH_MAX];
		int fd;

		snprintf(path, sizeof(path), "%s/%s", calls_dir, files[i % 4]);
		fd = open(path, O_RDONLY);
		if (fd < 0 || read(fd, bytes, sizeof(bytes)) != sizes[i % 4])
			sum += 1000000;
		close(fd);
	}
	for (ssize_t n; (n = read(shared_fd, bytes, 7)) > 0;)
		sum += n;
	return (void *)sum;
}

CASE(threads)
{
	pthread_t thread[THREADS];
	long sum = 0;

	shared_fd = get("large");
	close(shared_fd);
	shared_fd = get("small");
	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, reads, NULL);
	for (int i = 0; i < THREADS; i++) {
		void *got;

		pthread_join(thread[i], &got);
		sum += (long)got;
	}
	did("each byte once", sum);
	close(shared_fd);
}

static int signal_fd;
static bool opens; /* on_signal() does */
static _Atomic int signals, signals_bad;

static void on_signal(int number)
{
	const int err = errno;
	char bytes[64];
	int fd;

	(void)number;
	if (pread(signal_fd, bytes, 64, 100) != 64)
		atomic_fetch_add_explicit(&signals_bad, 1, memory_order_relaxed);
	if (opens) {
		fd = get("small");
		if (fd < 0 || read(fd, bytes, 64) != 64)
			atomic_fetch_add_explicit(&signals_bad, 1, memory_order_relaxed);
		close(fd);
	}
	errno = err;
	atomic_fetch_add_explicit(&signals, 1, memory_order_relaxed);
}

static int opens_and_reads(void)
{
	char path[PATH_MAX], bytes[CALLS_SMALL];
	int fd, bad;

	snprintf(path, sizeof(path), "%s/small", calls_dir);
	fd = open(path, O_RDONLY);
	bad = fd < 0 || read(fd, bytes, CALLS_SMALL) != CALLS_SMALL;
	close(fd);
	return bad;
}

/* Is in libc's allocator for most of its time. */
static int allocates(void)
{
	void *kept[64];

	for (int i = 0; i < 64; i++)
		kept[i] = malloc(1500 + 100 * (size_t)i);
	for (int i = 0; i < 64; i++)
		free(kept[i]);
	return 0;
}

/* Runs `one` under `count` signals, each sent when the one before has come: a timer that goes on by
 * itself leaves a busy host no time but for the signals.  Returns what went wrong. */
static int under_signals(int (*one)(void), int count)
{
	int bad = 0, sent = 0;

	atomic_store_explicit(&signals, 0, memory_order_relaxed);
	atomic_store_explicit(&signals_bad, 0, memory_order_relaxed);
	for (;;) {
		const struct itimerval soon = { .it_value = { 0, 1 + sent * 37 % 1000 } };

		if (atomic_load_explicit(&signals, memory_order_relaxed) == sent) {
			if (sent++ == count)
				break;
			setitimer(ITIMER_REAL, &soon, NULL);
		}
		bad += one();
	}
	return bad + atomic_load_explicit(&signals_bad, memory_order_relaxed);
}

/* pread() of an open file, and open() in the middle of another one, and of malloc(). */
CASE(signals)
{
	struct sigaction act = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	signal_fd = get("small");
	sigaction(SIGALRM, &act, NULL);
	opens = calls_has_mount;
	did("interrupted open()", under_signals(opens_and_reads, 200));
	opens = true;
	did("interrupted malloc()", under_signals(allocates, 200));
	close(signal_fd);
}

CASE(bad)
{
	char bytes[10], *path = malloc(5000);
	struct stat st;

	memset(path, 'a', 4999);
	path[4999] = 0;
	memcpy(path, calls_dir, strlen(calls_dir));
	path[strlen(calls_dir)] = '/';
	did("long path", open(path, O_RDONLY));
	path[strlen(calls_dir) + 1 + 256] = 0;
	did("long name", open(path, O_RDONLY));
	did("long name", stat(path, &st));
	path[strlen(calls_dir) + 1 + 255] = 0;
	did("name of 255", open(path, O_RDONLY));
	did("read -1", read(-1, bytes, 1));
	did("read NULL", read(get("small"), (void *)(intptr_t)number("0"), 1));
	closefrom(3);
	did("stat NULL", stat((char *)(intptr_t)number("0"), &st));
	for (int i = 0; i < 100; i++)
		memcpy(path + strlen(calls_dir) + 2 * i, "/.", 2);
	memcpy(path + strlen(calls_dir) + 200, "/small", 7);
	did("dots", stat(path, &st));
	for (int i = 0; i < 300; i++)
		memcpy(path + strlen(calls_dir) + 8 * i, "/dir/...", 8),
			memcpy(path + strlen(calls_dir) + 8 * i + 4, "/../", 4);
	memcpy(path + strlen(calls_dir) + 2400, "small", 6);
	did("dots", stat(path, &st));
	free(path);
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#define _GNU_SOURCE
#include "appliance/ctl/ctl_fetch.h"
#include "appliance/ctl/ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define HTTP_SECONDS 5

/* Reads until the end.  Keeps the last bytes_max bytes. */
static int read_all(int fd, size_t bytes_max, char **out, bool *is_cut)
{
	char *bytes = ctl_need(malloc(2 * bytes_max + 1));
	size_t used = 0;
	ssize_t got;

	ASSERT(bytes_max > 0);
	*is_cut = false;
	while ((got = read(fd, bytes + used, 2 * bytes_max - used)) != 0) {
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			free(bytes);
			return -errno;
		}
		used += (size_t)got;
		if (used < 2 * bytes_max)
			continue;
		memmove(bytes, bytes + bytes_max, bytes_max);
		used = bytes_max;
		*is_cut = true;
	}
	if (used > bytes_max) {
		memmove(bytes, bytes + used - bytes_max, bytes_max);
		used = bytes_max;
		*is_cut = true;
	}
	ASSERT(used <= bytes_max);
	bytes[used] = '\0';
	*out = bytes;
	return 0;
}

/* ---- programs ------------------------------------------------------------------------------ */

static int spawn(const char *const argv[], int out_fd, pid_t *pid)
{
	posix_spawn_file_actions_t actions;
	int err;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	err = posix_spawnp(pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return -err;
}

int ctl_fetch_program(const char *const argv[], size_t bytes_max, char **out)
{
	int fd[2], status, err;
	bool is_cut;
	pid_t pid;

	if (pipe2(fd, O_CLOEXEC) < 0)
		return -errno;
	err = spawn(argv, fd[1], &pid);
	close(fd[1]);
	if (!err) {
		err = read_all(fd[0], bytes_max, out, &is_cut);
		if (waitpid(pid, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status)) {
			if (!err)
				free(*out);
			err = err ? err : -EIO;
		}
	}
	close(fd[0]);
	return err;
}

/* ---- HTTP ---------------------------------------------------------------------------------- */

static int ask(int fd, const struct app_conf_address *from, const char *path, const char *token)
{
	const struct timeval limit = { .tv_sec = HTTP_SECONDS };
	char text[APP_TOKEN_MAX + 512];
	int bytes;

	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(fd, (const struct sockaddr *)&from->address, from->size_bytes) < 0)
		return -errno;
	bytes = snprintf(text, sizeof(text), "GET %s HTTP/1.0\r\nHost: localhost\r\n%s%s%s\r\n",
			 path, *token ? "Authorization: Bearer " : "", token, *token ? "\r\n" : "");
	ASSERT(bytes > 0 && (size_t)bytes < sizeof(text));
	return send(fd, text, (size_t)bytes, MSG_NOSIGNAL) == bytes ? 0 : -EIO;
}

/* Keeps only the body of an answer. */
static int body_of(char *answer)
{
	const char *body = strstr(answer, "\r\n\r\n");

	if (strncmp(answer, "HTTP/1.", 7) != 0 || !body)
		return -EPROTO;
	if (strncmp(answer + 8, " 200 ", 5) != 0)
		return strncmp(answer + 8, " 401 ", 5) == 0 ? -EACCES : -EPROTO;
	memmove(answer, body + 4, strlen(body + 4) + 1);
	return 0;
}

int ctl_fetch_http(const struct app_conf_address *from, const char *path, const char *token,
		   size_t bytes_max, char **out)
{
	int fd = socket(from->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), err;
	bool is_cut = false;

	if (fd < 0)
		return -errno;
	err = ask(fd, from, path, token);
	if (!err)
		err = read_all(fd, bytes_max, out, &is_cut);
	close(fd);
	if (err)
		return err;
	err = is_cut ? -EFBIG : body_of(*out);
	if (err)
		free(*out);
	return err;
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Directories by descriptor: more than may be open, deeper than a path may be long, and no symlink
 * is followed. */
#define _GNU_SOURCE
#include "appliance/ctl/ctl_local.h"
#include "appliance/ctl/ctl.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEPTH 60u /* names of 255 bytes: 15 KiB of path */
#define WIDTH 40u

static char top[] = "/tmp/weka-local-XXXXXX";
static struct ctl_dirs dirs;

static void set_up(void)
{
	cr_assert_not_null(mkdtemp(top));
	cr_assert_eq(ctl_dirs_begin(&dirs, top), 0);
}

static void tear_down(void)
{
	char command[64];

	ctl_dirs_end(&dirs);
	snprintf(command, sizeof(command), "rm -rf %s", top);
	cr_assert_eq(system(command), 0);
}

TestSuite(ctl_local, .init = set_up, .fini = tear_down);

static struct ctl_dir *make(struct ctl_dir *parent, const char *name)
{
	struct ctl_dir *d = ctl_dir_add(&dirs, parent, name);
	int fd = ctl_dir_open(&dirs, parent);

	cr_assert_geq(fd, 0);
	cr_assert_eq(mkdirat(fd, name, 0700), 0, "%s", strerror(errno));
	return d;
}

static ino_t ino_of(struct ctl_dir *d)
{
	struct stat st;
	int fd = ctl_dir_open(&dirs, d);

	cr_assert_geq(fd, 0, "%s: %s", d->name, strerror(-fd));
	cr_assert_eq(fstat(fd, &st), 0);
	return st.st_ino;
}

Test(ctl_local, a_closed_directory_is_opened_again_however_deep_it_is)
{
	struct ctl_dir *d[DEPTH], *parent = dirs.dir[0];
	ino_t ino[DEPTH];
	char name[256];

	memset(name, 'n', 255);
	name[255] = 0;
	dirs.open_max = 3;
	for (uint32_t i = 0; i < DEPTH; i++) {
		d[i] = parent = make(parent, name);
		ino[i] = ino_of(d[i]);
		cr_assert_leq(dirs.open_count, 3);
	}
	for (uint32_t i = 0; i < DEPTH; i++)
		cr_assert_eq(ino_of(d[(i * 7) % DEPTH]), ino[(i * 7) % DEPTH]);
}

Test(ctl_local, a_pinned_directory_stays_open)
{
	struct ctl_dir *first = make(dirs.dir[0], "first");
	char name[16];
	int fd = ctl_dir_open(&dirs, first);

	dirs.open_max = 2;
	ctl_dir_pin(first);
	for (uint32_t i = 0; i < WIDTH; i++) {
		snprintf(name, sizeof(name), "%u", i);
		(void)ino_of(make(dirs.dir[0], name));
	}
	cr_assert_eq(first->fd, fd);
	ctl_dir_unpin(first);
}

/* Makes DEPTH directories, each in the one before, of which none is open.  Returns the last one. */
static struct ctl_dir *make_closed(const char *name)
{
	struct ctl_dir *d = dirs.dir[0];
	int fd = dup(d->fd);

	for (uint32_t i = 0; i < DEPTH; i++) {
		int above = fd;

		cr_assert_eq(mkdirat(above, name, 0700), 0, "%s", strerror(errno));
		fd = openat(above, name, O_RDONLY | O_DIRECTORY);
		cr_assert_geq(fd, 0, "%s", strerror(errno));
		close(above);
		d = ctl_dir_add(&dirs, d, name);
	}
	close(fd);
	return d;
}

/* Lets the process open `count` descriptors more.  Returns the limit before. */
static struct rlimit spare_files(uint32_t count)
{
	int taken[64], lowest = dup(0);
	struct rlimit was, now;
	uint32_t n = 0;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &was), 0);
	now = was;
	now.rlim_cur = (rlim_t)lowest + 64;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &now), 0);
	close(lowest);
	while (n < ARRAY_LEN(taken) && (taken[n] = dup(0)) >= 0)
		n++;
	cr_assert_geq(n, count);
	now.rlim_cur = (rlim_t)taken[count - 1] + 1;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &now), 0);
	while (n > 0)
		close(taken[--n]);
	return was;
}

/* A path that is too long for the kernel is opened name by name, which takes two descriptors. */
Test(ctl_local, a_deep_directory_takes_two_descriptors_and_fails_with_one, .timeout = 30)
{
	struct ctl_dir *deep;
	struct rlimit was;
	char name[256];
	int one, two;

	memset(name, 'n', 255);
	name[255] = 0;
	deep = make_closed(name);
	was = spare_files(1);
	one = ctl_dir_open(&dirs, deep);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
	cr_assert_eq(one, -EMFILE);

	while (dirs.open_count > 0) {
		struct ctl_dir *d = list_entry(dirs.open.next, struct ctl_dir, lru);

		close(d->fd);
		d->fd = -1;
		list_del(&d->lru);
		dirs.open_count--;
	}
	was = spare_files(2);
	two = ctl_dir_open(&dirs, deep);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
	cr_assert_geq(two, 0, "%s", strerror(-two));
}

Test(ctl_need, without_memory_ends_the_program_with_status_1_and_a_line)
{
	char line[200] = "";
	int out[2], status;
	pid_t child;

	cr_assert_eq(pipe(out), 0);
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0) {
		(void)dup2(out[1], STDERR_FILENO);
		(void)ctl_need(NULL);
		_exit(0);
	}
	close(out[1]);
	cr_assert_gt(read(out[0], line, sizeof(line) - 1), 0);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1, "%d", status);
	cr_assert(strstr(line, "out of memory") && strchr(line, '\n') == line + strlen(line) - 1,
		  "%s", line);
	close(out[0]);
}

/* Also where it took the place of a directory that was open before. */
Test(ctl_local, a_symlink_is_not_followed)
{
	struct ctl_dir *a = make(dirs.dir[0], "a"), *b = make(a, "b"), *c = make(b, "c"), *other;
	int fd = dirs.dir[0]->fd;

	(void)ino_of(c);
	dirs.open_max = 1;
	other = make(dirs.dir[0], "other");
	(void)ino_of(other);
	cr_assert_eq(c->fd, -1);
	cr_assert_eq(renameat(fd, "a", fd, "moved"), 0);
	cr_assert_eq(symlinkat("moved", fd, "a"), 0);
	cr_assert_lt(ctl_dir_open(&dirs, c), 0);
	cr_assert_lt(ctl_dir_open(&dirs, a), 0);
	cr_assert_eq(unlinkat(fd, "a", 0), 0);
	cr_assert_eq(renameat(fd, "moved", fd, "a"), 0);
	cr_assert_geq(ctl_dir_open(&dirs, c), 0);
}

Test(ctl_local, paths_are_told_as_the_user_says_them)
{
	struct ctl_dir *a = ctl_dir_add(&dirs, dirs.dir[0], "a"), *b = ctl_dir_add(&dirs, a, "b");
	static const struct {
		const char *top, *in_b, *in_top, *b;
	} want[] = { { "t", "t/a/b/f", "t/f", "t/a/b" },
		     { "/t//", "/t/a/b/f", "/t/f", "/t/a/b" },
		     { "/", "/a/b/f", "/f", "/a/b" },
		     { "", "/a/b/f", "/f", "/a/b" } };

	for (uint32_t i = 0; i < ARRAY_LEN(want); i++) {
		char *in_b = ctl_dir_path(want[i].top, b, "f");
		char *in_top = ctl_dir_path(want[i].top, dirs.dir[0], "f");
		char *of_b = ctl_dir_path(want[i].top, b, "");

		cr_assert_str_eq(in_b, want[i].in_b);
		cr_assert_str_eq(in_top, want[i].in_top);
		cr_assert_str_eq(of_b, want[i].b);
		free(in_b);
		free(in_top);
		free(of_b);
	}
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Makes each call that libweka-preload.so serves or passes on, in two directories with the same
 * tree, and compares all that it sees: results, errno, bytes, attributes, numbers of descriptors.
 *
 *     preload_calls make DIR           makes the tree
 *     preload_calls run DIR REFERENCE [mount]   prints a line for each case: ok or not ok
 *
 * DIR is served; REFERENCE lies on a local file system.  "mount": DIR is a mount, so that what only
 * the mount can do works, too.
 */
#define _GNU_SOURCE
#include "test/lib/preload_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
	const char *name;
	void (*run)(void);
	bool needs_mount;
} cases[] = {
	{ "open", case_open, false },
	{ "names", case_names, false },
	{ "read", case_read, false },
	{ "paths of descriptors", case_named, false },
	{ "lseek", case_seek, false },
	{ "fstat", case_fstat, false },
	{ "dup", case_dup, false },
	{ "numbers that are used again", case_numbers, false },
	{ "mmap", case_map, false },
	{ "streams", case_stream, false },
	{ "copies", case_copies, false },
	{ "poll, select, ioctl", case_wait, false },
	{ "locks", case_locks, false },
	{ "directories", case_dir, false },
	{ "relative to a descriptor", case_at, false },
	{ "fork", case_fork, false },
	{ "spawn, exec, vfork", case_spawn, false },
	{ "vfork's child closes", case_vfork, false },
	{ "descriptors that are sent", case_sent, false },
	{ "threads", case_threads, false },
	{ "signals", case_signals, false },
	{ "mistakes", case_bad, false },
	{ "attributes that are set", case_attributes, true },
	{ "changes, chdir", case_change, true },
};

/* Prints the first line that differs. */
static bool same(const char *name, const char *a, const char *b)
{
	const char *line_a = a, *line_b = b;

	for (; *a && *a == *b; a++, b++)
		if (*a == '\n') {
			line_a = a + 1;
			line_b = b + 1;
		}
	if (*a == *b) {
		printf("ok %s\n", name);
		return true;
	}
	printf("not ok %s\n  it is: %.*s\n  not: %.*s\n", name, (int)strcspn(line_a, "\n"), line_a,
	       (int)strcspn(line_b, "\n"), line_b);
	return false;
}

static char *run(void (*one)(void), const char *where)
{
	calls_begin(where);
	one();
	closefrom(3);
	return calls_seen();
}

int main(int argc, char **argv)
{
	int bad = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 3 && strcmp(argv[1], "make") == 0) {
		calls_dir = argv[2];
		calls_make();
		return 0;
	}
	if (argc < 4 || strcmp(argv[1], "run") != 0) {
		fprintf(stderr, "usage: preload_calls make DIR | run DIR REFERENCE [mount]\n");
		return 2;
	}
	calls_has_mount = argc > 4;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *served, *local;

		if (cases[i].needs_mount && !calls_has_mount)
			continue;
		served = run(cases[i].run, argv[2]);
		local = run(cases[i].run, argv[3]);
		bad += !same(cases[i].name, served, local);
		free(served);
		free(local);
	}
	return bad > 0;
}

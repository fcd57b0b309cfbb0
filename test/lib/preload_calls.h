/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Shared by the cases of test/tools/preload_calls.c. */
#ifndef TEST_PRELOAD_CALLS_H
#define TEST_PRELOAD_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#define CALLS_SMALL 5000
#define CALLS_LARGE (700u << 10) /* is not read with its open */

extern const char *calls_dir;           /* where the cases run */
extern bool calls_has_mount;            /* the served directory is a mount */
extern const char *const calls_names[]; /* paths of all kinds, below the directory */
extern const size_t calls_name_count;

/* Keeps what the cases see, until calls_seen() takes it. */
void calls_begin(const char *dir);
char *calls_seen(void);
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);
/* Notes a result, and errno when it is -1; returns it. */
long did(const char *what, long result);
void saw(const char *what, const void *bytes, ssize_t length);
void saw_stat(const char *what, const struct stat *st);
/* Returns a path in the directory, good for the next three calls. */
const char *in(const char *name);
/* A number that the compiler does not see, so that it does not warn. */
int number(const char *of);
int get(const char *name);
void read_all(const char *what, int fd);
/* Makes the tree. */
void calls_make(void);

#define CASE(name) void case_##name(void)
CASE(open);
CASE(names);
CASE(read);
CASE(named);
CASE(seek);
CASE(fstat);
CASE(dup);
CASE(numbers);
CASE(map);
CASE(stream);
CASE(copies);
CASE(wait);
CASE(locks);
CASE(attributes);
CASE(dir);
CASE(at);
CASE(change);
CASE(fork);
CASE(spawn);
CASE(vfork);
CASE(sent);
CASE(threads);
CASE(signals);
CASE(bad);

#endif

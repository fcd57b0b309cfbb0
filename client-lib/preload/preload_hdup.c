/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Hooks: dup() and its like, fcntl().  Two descriptors of one open file share its offset, which
 * only the kernel can do: a file is given to it first.  A directory has no offset, so both stay
 * served.
 */
#define _GNU_SOURCE
#include "client-lib/preload/preload_hook.h"

#include <stdarg.h>
#include <string.h>

/* Returns a copy of the file of a served directory, or NULL: it is not one. */
static struct preload_file *dir_copy(int fd)
{
	const struct preload_file *file = preload_slot_get(fd, PRELOAD_SERVED);
	struct preload_file *copy = NULL;

	if (!file)
		return NULL;
	if (file->kind == PRELOAD_DIR) {
		const size_t bytes = strlen(file->path) + 1;

		copy = preload_memory_take(sizeof(*copy) + bytes);
		if (copy) {
			*copy = (struct preload_file){ .kind = PRELOAD_DIR,
						       .flags = file->flags,
						       .attr = file->attr };
			copy->path = memcpy(copy + 1, file->path, bytes);
		}
	}
	preload_slot_put(fd);
	return copy;
}

/* `made` is a new descriptor of the same, if any. */
static int duplicated(int made, struct preload_file *copy)
{
	if (made >= 0 && copy && preload_slot_publish(made, copy))
		return made;
	preload_memory_give(copy);
	return made;
}

/* Makes a file ready to be duplicated; a directory stays as it is, *copy. */
static int prepare(int fd, struct preload_file **copy)
{
	*copy = dir_copy(fd);
	return *copy ? 0 : preload_settle(fd, PRELOAD_CONTENT);
}

PRELOAD_HOOK int dup(int fd)
{
	struct preload_file *copy;

	return prepare(fd, &copy) != 0 ? -1 : duplicated(REAL->dup(fd), copy);
}

PRELOAD_HOOK int dup2(int fd, int to)
{
	struct preload_file *copy;

	if (preload_is_own(to))
		return preload_fail(-EBADF);
	if (fd == to)
		return REAL->dup2(fd, to);
	if (prepare(fd, &copy) != 0)
		return -1;
	if (REAL->dup2(fd, to) < 0) {
		preload_memory_give(copy);
		return -1;
	}
	preload_slot_drop(to);
	return duplicated(to, copy);
}

PRELOAD_HOOK int dup3(int fd, int to, int flags)
{
	struct preload_file *copy;

	if (preload_is_own(to))
		return preload_fail(-EBADF);
	if (prepare(fd, &copy) != 0)
		return -1;
	if (REAL->dup3(fd, to, flags) < 0) {
		preload_memory_give(copy);
		return -1;
	}
	preload_slot_drop(to);
	return duplicated(to, copy);
}

/* Returns the flags of open() that a served file shows; -1: it is not served. */
static int flags_of(int fd)
{
	const struct preload_file *file = preload_slot_get(fd, PRELOAD_SERVED);
	int flags;

	if (!file)
		return -1;
	flags = (file->flags & ~(O_CLOEXEC | O_NOCTTY | O_EXCL)) | 0100000; /* O_LARGEFILE */
	preload_slot_put(fd);
	return flags;
}

static int control(int fd, int command, void *arg)
{
	struct preload_file *copy;
	int flags;

	switch (command) {
	case F_GETFD:
	case F_SETFD:
		break; /* those of the descriptor itself are real */
	case F_GETFL:
		flags = flags_of(fd);
		if (flags >= 0)
			return flags;
		break;
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
		if (prepare(fd, &copy) != 0)
			return -1;
		return duplicated(REAL->fcntl(fd, command, arg), copy);
	default:
		if (preload_settle(fd, PRELOAD_IDENTITY) != 0)
			return -1;
	}
	return REAL->fcntl(fd, command, arg);
}

PRELOAD_HOOK int fcntl(int fd, int command, ...)
{
	va_list args;
	void *arg;

	va_start(args, command);
	arg = va_arg(args, void *);
	va_end(args);
	return control(fd, command, arg);
}

PRELOAD_HOOK int fcntl64(int fd, int command, ...)
{
	va_list args;
	void *arg;

	va_start(args, command);
	arg = va_arg(args, void *);
	va_end(args);
	return control(fd, command, arg);
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The requests of the kernel: one row each, and the one parser that looks at their bytes.
 *
 *     | fuse_in_header 40 | fixed arguments | name NUL | name NUL | data |
 *
 * A request without a row is answered with ENOSYS.  For some of them that is the wanted answer,
 * since the kernel does not ask again and does the work itself:
 *
 *     ACCESS                 the kernel checks modes (default_permissions)
 *     GETLK, SETLK, SETLKW   not asked for in INIT: locks of one mount are the kernel's
 *     FSYNC, FSYNCDIR        what was answered is durable already
 *     FLUSH                  nothing is kept back
 *     TMPFILE                the program sees EOPNOTSUPP
 *     COPY_FILE_RANGE        the kernel copies through the page cache
 *     BMAP, POLL, SYNCFS, STATX
 */
#include "client-lib/mount/mount.h"

#include "base/num.h"

#include <errno.h>
#include <string.h>

#define BOTH(name) .begin = mount_##name##_begin, .step = mount_##name##_step
#define ONE(name)  .begin = mount_##name##_begin
#define SIZE(type) .fixed_bytes = sizeof(struct type)

static const struct mount_shape shapes[] = {
	[FUSE_LOOKUP] = { "lookup", .names = 1, BOTH(lookup) },
	[FUSE_FORGET] = { "forget", SIZE(fuse_forget_in), .flags = MOUNT_SHAPE_MUTE, ONE(forget) },
	[FUSE_GETATTR] = { "getattr", SIZE(fuse_getattr_in), BOTH(getattr) },
	[FUSE_SETATTR] = { "setattr", SIZE(fuse_setattr_in), BOTH(setattr) },
	[FUSE_READLINK] = { "readlink", BOTH(readlink) },
	[FUSE_SYMLINK] = { "symlink", .names = 2, BOTH(symlink) },
	[FUSE_MKNOD] = { "mknod", SIZE(fuse_mknod_in), .names = 1, BOTH(mknod) },
	[FUSE_MKDIR] = { "mkdir", SIZE(fuse_mkdir_in), .names = 1, BOTH(mkdir) },
	[FUSE_UNLINK] = { "unlink", .names = 1, BOTH(unlink) },
	[FUSE_RMDIR] = { "rmdir", .names = 1, BOTH(rmdir) },
	[FUSE_RENAME] = { "rename", SIZE(fuse_rename_in), .names = 2, BOTH(rename) },
	[FUSE_LINK] = { "link", SIZE(fuse_link_in), .names = 1, BOTH(link) },
	[FUSE_OPEN] = { "open", SIZE(fuse_open_in), BOTH(open) },
	[FUSE_READ] = { "read", SIZE(fuse_read_in), BOTH(read) },
	[FUSE_WRITE] = { "write", SIZE(fuse_write_in),
			 .flags = MOUNT_SHAPE_DATA | MOUNT_SHAPE_WRITE, BOTH(write) },
	[FUSE_STATFS] = { "statfs", BOTH(statfs) },
	[FUSE_RELEASE] = { "release", SIZE(fuse_release_in), ONE(release) },
	[FUSE_SETXATTR] = { "setxattr", .fixed_bytes = FUSE_COMPAT_SETXATTR_IN_SIZE, .names = 1,
			    .flags = MOUNT_SHAPE_DATA, BOTH(setxattr) },
	[FUSE_GETXATTR] = { "getxattr", SIZE(fuse_getxattr_in), .names = 1, BOTH(getxattr) },
	[FUSE_LISTXATTR] = { "listxattr", SIZE(fuse_getxattr_in), BOTH(listxattr) },
	[FUSE_REMOVEXATTR] = { "removexattr", .names = 1, BOTH(removexattr) },
	[FUSE_OPENDIR] = { "opendir", SIZE(fuse_open_in), ONE(opendir) },
	[FUSE_READDIR] = { "readdir", SIZE(fuse_read_in), BOTH(readdir) },
	[FUSE_RELEASEDIR] = { "releasedir", SIZE(fuse_release_in), ONE(releasedir) },
	[FUSE_CREATE] = { "create", SIZE(fuse_create_in), .names = 1, BOTH(create) },
	[FUSE_INTERRUPT] = { "interrupt", SIZE(fuse_interrupt_in), .flags = MOUNT_SHAPE_MUTE,
			     ONE(interrupt) },
	[FUSE_DESTROY] = { "destroy", ONE(destroy) },
	[FUSE_BATCH_FORGET] = { "batch_forget", SIZE(fuse_batch_forget_in),
				.flags = MOUNT_SHAPE_DATA | MOUNT_SHAPE_MUTE, ONE(batch_forget) },
	[FUSE_FALLOCATE] = { "fallocate", SIZE(fuse_fallocate_in), BOTH(fallocate) },
	[FUSE_READDIRPLUS] = { "readdirplus", SIZE(fuse_read_in), BOTH(readdirplus) },
	[FUSE_RENAME2] = { "rename2", SIZE(fuse_rename2_in), .names = 2, BOTH(rename2) },
	[FUSE_LSEEK] = { "lseek", SIZE(fuse_lseek_in), BOTH(lseek) },
};

const struct mount_shape *mount_shape_of(uint32_t opcode)
{
	if (opcode >= ARRAY_LEN(shapes) || !shapes[opcode].text)
		return NULL;
	ASSERT(shapes[opcode].begin);
	return &shapes[opcode];
}

/* Finds the names, which begin at `at`; returns where they end, or 0. */
static uint32_t parse_names(struct mount_op *op, uint32_t at)
{
	for (uint32_t i = 0; i < op->shape->names; i++) {
		const char *end = memchr(op->args + at, 0, op->args_bytes - at);

		if (!end || end == op->args + at)
			return 0;
		op->name[i] = op->args + at;
		at = (uint32_t)(end + 1 - op->args);
		ASSERT(at <= op->args_bytes);
	}
	return at;
}

int mount_parse(struct mount_op *op, uint32_t got)
{
	const struct fuse_in_header *in = mount_head(op);
	uint32_t at;

	if (got < sizeof(*in) || in->len != got)
		return -EINVAL;
	op->shape = mount_shape_of(in->opcode);
	if (!op->shape)
		return -ENOSYS;
	op->args = (op->big ? op->big : op->bytes) + sizeof(*in);
	op->args_bytes = got - (uint32_t)sizeof(*in);
	if (op->args_bytes < op->shape->fixed_bytes)
		return -EINVAL;
	at = op->shape->fixed_bytes;
	if (op->shape->flags & MOUNT_SHAPE_WRITE)
		return 0; /* the data are elsewhere */
	if (op->shape->names > 0)
		at = parse_names(op, at);
	if (op->shape->names > 0 && at == 0)
		return -EINVAL;
	/* Extensions, which INIT asks for none of, would follow. */
	if (at != op->args_bytes && !(op->shape->flags & MOUNT_SHAPE_DATA))
		return -EINVAL;
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Requests of the kernel as bytes: whole ones are taken apart, malformed ones are refused. */
#include "client-lib/mount/mount.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

static struct mount_op op;

static struct fuse_in_header *head(void)
{
	return (struct fuse_in_header *)(void *)op.bytes;
}

/* A request with `bytes` after its header. */
static int parse(uint32_t opcode, const void *bytes, uint32_t count)
{
	memset(&op, 0, sizeof(op));
	memcpy(op.bytes + sizeof(struct fuse_in_header), bytes, count);
	*head() = (struct fuse_in_header){ .opcode = opcode,
					   .len = (uint32_t)sizeof(struct fuse_in_header) + count };
	return mount_parse(&op, head()->len);
}

Test(mount_parse, a_name_is_found)
{
	cr_assert_eq(parse(FUSE_LOOKUP, "name", 5), 0);
	cr_assert_str_eq(op.name[0], "name");
}

Test(mount_parse, two_names_after_arguments_are_found)
{
	char bytes[sizeof(struct fuse_rename2_in) + 8] = { 0 };

	memcpy(bytes + sizeof(struct fuse_rename2_in), "old\0new", 8);
	cr_assert_eq(parse(FUSE_RENAME2, bytes, sizeof(bytes)), 0);
	cr_assert_str_eq(op.name[0], "old");
	cr_assert_str_eq(op.name[1], "new");
}

Test(mount_parse, malformed_requests_are_refused)
{
	cr_assert_eq(parse(FUSE_LOOKUP, "name", 4), -EINVAL);     /* no NUL */
	cr_assert_eq(parse(FUSE_LOOKUP, "", 1), -EINVAL);         /* no name */
	cr_assert_eq(parse(FUSE_LOOKUP, "a\0b", 4), -EINVAL);     /* more than a name */
	cr_assert_eq(parse(FUSE_SYMLINK, "name", 5), -EINVAL);    /* no target */
	cr_assert_eq(parse(FUSE_GETATTR, "1234567", 7), -EINVAL); /* half of its arguments */
	cr_assert_eq(parse(FUSE_STATFS, "", 0), 0);
	head()->len++;
	cr_assert_eq(mount_parse(&op, head()->len - 1), -EINVAL);
	cr_assert_eq(mount_parse(&op, sizeof(struct fuse_in_header) - 1), -EINVAL);
}

Test(mount_parse, unknown_requests_have_no_row)
{
	cr_assert_eq(parse(FUSE_FSYNC, "", 0), -ENOSYS);
	cr_assert_eq(parse(0, "", 0), -ENOSYS);
	cr_assert_eq(parse(UINT32_MAX, "", 0), -ENOSYS);
	cr_assert_null(mount_shape_of(FUSE_TMPFILE));
	for (uint32_t opcode = 0; opcode < 100; opcode++)
		if (mount_shape_of(opcode))
			cr_assert(mount_shape_of(opcode)->fixed_bytes < MOUNT_INLINE - MOUNT_HEAD);
}

/* Each cut of each request is parsed without a read beyond it: ASan looks. */
Test(mount_parse, no_cut_is_read_beyond)
{
	char bytes[160];

	memset(bytes, 'x', sizeof(bytes));
	bytes[100] = bytes[120] = 0;
	for (uint32_t opcode = 1; opcode < 60; opcode++)
		for (uint32_t count = 0; count < sizeof(bytes); count++) {
			int err = parse(opcode, bytes, count);

			cr_assert(err == 0 || err == -EINVAL || err == -ENOSYS);
			for (uint32_t i = 0; !err && i < op.shape->names; i++)
				cr_assert_not_null(
					memchr(op.name[i], 0, op.args + count - op.name[i]));
		}
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Mounts without a process: only those of weka-mount are taken away. */
#include "client-lib/mount/mount.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char mounts[] = "/tmp/weka-mounts.XXXXXX";

static void table(const char *text)
{
	int fd = mkstemp(mounts);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");

	cr_assert(f);
	fputs(text, f);
	fclose(f);
}

static void clean(void)
{
	unlink(mounts);
}

Test(mount_dead, a_weka_mount_is_ours, .fini = clean)
{
	table("proc /proc proc rw 0 0\n"
	      "tcp://a:1 /mnt/a\\040b fuse.weka rw 0 0\n");
	cr_assert(mount_is_ours(mounts, "/mnt/a b"));
	cr_assert(!mount_is_ours(mounts, "/mnt/a"));
	cr_assert(!mount_is_ours(mounts, "/proc"));
}

Test(mount_dead, the_topmost_mount_decides, .fini = clean)
{
	table("tcp://a:1 /mnt fuse.weka rw 0 0\n"
	      "host:/ /mnt fuse.sshfs rw 0 0\n"
	      "host:/ /srv fuse.sshfs rw 0 0\n"
	      "tcp://a:1 /srv fuse.weka rw 0 0\n");
	cr_assert(!mount_is_ours(mounts, "/mnt"));
	cr_assert(mount_is_ours(mounts, "/srv"));
}

Test(mount_dead, without_a_table_nothing_is_ours)
{
	cr_assert(!mount_is_ours("/nowhere/mounts", "/mnt"));
}

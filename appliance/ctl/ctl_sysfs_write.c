/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Writes to /sys: the only place where wekactl changes the kernel's state. */
#include "appliance/ctl/ctl_sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int ctl_sysfs_write(const char *root, const char *path, const char *text)
{
	char full[CTL_PATH_SIZE];
	ssize_t wrote;
	int fd, err = ctl_sysfs_path(full, root, "%s", path);

	if (err)
		return err;
	fd = open(full, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return -errno;
	wrote = write(fd, text, strlen(text));
	err = wrote < 0 ? -errno : (size_t)wrote == strlen(text) ? 0 : -EIO;
	close(fd);
	return err;
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* wekactl drives: a drive's health page, through the kernel's nvme driver. */
#include "appliance/ctl/ctl_drives.h"

#include <fcntl.h>
#include <linux/nvme_ioctl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OP_GET_LOG_PAGE = 0x02, LOG_HEALTH = 0x02, TIMEOUT_MS = 2000 };

void ctl_drive_health(struct ctl_drive *d, const char *root)
{
	uint8_t page[CTL_HEALTH_BYTES] = { 0 };
	struct nvme_admin_cmd cmd = {
		.opcode = OP_GET_LOG_PAGE,
		.nsid = 0xffffffff,
		.addr = (uintptr_t)page,
		.data_len = sizeof(page),
		.cdw10 = (sizeof(page) / 4 - 1) << 16 | LOG_HEALTH,
		.timeout_ms = TIMEOUT_MS,
	};
	char path[CTL_PATH_SIZE];
	struct stat st;
	int fd;

	if (!*d->ctrl || ctl_sysfs_path(path, root, "/dev/%s", d->ctrl))
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) &&
	    ioctl(fd, NVME_IOCTL_ADMIN_CMD, &cmd) == 0) {
		ctl_health_parse(page, &d->health);
		d->health_known = true;
	}
	close(fd);
}

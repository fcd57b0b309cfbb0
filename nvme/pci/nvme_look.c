/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Checks whether a drive could be opened, as far as possible without opening it. */
#define _GNU_SOURCE
#include "nvme/pci/nvme_vfio.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int look_file(const struct nvme_name *parsed, const struct nvme_why *why)
{
	struct stat st;

	if (stat(parsed->path, &st) && errno == ENOENT)
		return nvme__why(why, -ENOENT, "there is no such file; type: wekactl format");
	if (faccessat(AT_FDCWD, parsed->path, R_OK | W_OK, AT_EACCESS) && errno == EACCES)
		return nvme__why(why, -EACCES,
				 "the daemon's user may not open it; type: chown %u %s", geteuid(),
				 parsed->path);
	if (faccessat(AT_FDCWD, parsed->path, R_OK | W_OK, AT_EACCESS))
		return nvme__why(why, -errno, "%s", strerror(errno));
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return nvme__why(why, -EINVAL, "neither a file nor a block device");
	return 0;
}

static int look_pci(const struct nvme_name *parsed, const struct nvme_why *why)
{
	struct nvme_pci pci;

	if (nvme__pci_read(&pci, "/sys", parsed->path))
		return nvme__why(why, -ENODEV,
				 "there is no PCI device at this address; type: "
				 "wekactl drives");
	return nvme__pci_check(&pci, why);
}

static int look_socket(const struct nvme_name *parsed, const struct nvme_why *why)
{
	struct stat st;

	if (stat(parsed->path, &st))
		return nvme__why(why, -errno, "%s", strerror(errno));
	if (!S_ISSOCK(st.st_mode) && !S_ISDIR(st.st_mode))
		return nvme__why(why, -ENOTSOCK, "not a socket");
	return 0;
}

int nvme_name_look(const char *name, char *err_text, size_t err_text_size)
{
	const struct nvme_why why = { name, err_text, err_text_size };
	struct nvme_name parsed;
	int err = nvme__name_parse(&parsed, name, err_text, err_text_size);

	if (err)
		return err;
	switch (parsed.kind) {
	case NVME_NAME_FILE:
		return look_file(&parsed, &why);
	case NVME_NAME_PCI:
		return look_pci(&parsed, &why);
	case NVME_NAME_VFIO_USER:
		return look_socket(&parsed, &why);
	case NVME_NAME_MEM:
		break;
	}
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl: identifies content: a store of ours, a file system, a volume or a partition table
 * (libblkid knows them), or nothing known.  It only reads.
 */
#include "appliance/ctl/ctl_drives.h"
#include "meta/meta.h"
#include "meta/meta_set.h"
#include "nvme/nvme.h"

#include <blkid/blkid.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define REMAINS_BLOCKS 256u /* ctl_look.c reads this many */

static bool is_store(int fd, char *text, size_t text_size)
{
	_Alignas(8) uint8_t block[NVME_BLOCK_SIZE];
	uint8_t u[16];

	if (pread(fd, block, sizeof(block), 0) != (ssize_t)sizeof(block) ||
	    !meta_super_recognize(block, u))
		return false;
	snprintf(text, text_size,
		 "store %02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0],
		 u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13],
		 u[14], u[15]);
	return true;
}

/* Returns true if blocks of a store are there, even though its superblocks are gone. */
static bool was_store(int fd, char *text, size_t text_size)
{
	_Alignas(8) uint8_t block[NVME_BLOCK_SIZE];

	for (uint32_t i = 0; i < REMAINS_BLOCKS; i++) {
		if (pread(fd, block, sizeof(block), (off_t)i * NVME_BLOCK_SIZE) !=
		    (ssize_t)sizeof(block))
			return false;
		if (meta_is_of_store(block)) {
			snprintf(text, text_size, "remains of a store");
			return true;
		}
	}
	return false;
}

static int foreign(blkid_probe probe, char *text, size_t text_size)
{
	const char *type = NULL;
	int found;

	blkid_probe_enable_superblocks(probe, 1);
	blkid_probe_enable_partitions(probe, 1);
	found = blkid_do_safeprobe(probe);
	if (found == -2) {
		snprintf(text, text_size, "several signatures");
		return CTL_SIGNATURE_FOREIGN;
	}
	if (found != 0)
		return found == 1 ? CTL_SIGNATURE_NONE : -EIO;
	if (blkid_probe_lookup_value(probe, "TYPE", &type, NULL) != 0 &&
	    blkid_probe_lookup_value(probe, "PTTYPE", &type, NULL) != 0)
		return CTL_SIGNATURE_NONE;
	snprintf(text, text_size, "%s", type);
	ctl_printable(text);
	return CTL_SIGNATURE_FOREIGN;
}

int ctl_signature_fd(int fd, char *text, size_t text_size)
{
	int found = CTL_SIGNATURE_NONE;
	blkid_probe probe;
	uint8_t byte;

	text[0] = '\0';
	if (pread(fd, &byte, 1, 0) < 0)
		return -errno;
	if (is_store(fd, text, text_size))
		return CTL_SIGNATURE_STORE;
	if (was_store(fd, text, text_size))
		return CTL_SIGNATURE_FOREIGN;
	probe = blkid_new_probe();
	ASSERT(probe);
	if (blkid_probe_set_device(probe, fd, 0, 0) == 0) /* else too small for anything */
		found = foreign(probe, text, text_size);
	blkid_free_probe(probe);
	return found;
}

int ctl_signature(const char *path, char *text, size_t text_size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), found;

	text[0] = '\0';
	if (fd < 0)
		return -errno;
	found = ctl_signature_fd(fd, text, text_size);
	close(fd);
	return found;
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * file: drives: finds, makes, locks and measures the file; nvme_soft_uring.c does its I/O.
 *
 *   open, or make --> lock --> size: there, or allocated now --> O_DIRECT if that works
 *
 * Honest about durability: it reports a volatile cache, flush is fdatasync, FUA is RWF_DSYNC; it
 * promises no more than 512 bytes at a time to survive a power cut whole.  Deallocated space goes
 * back to the file system, and is allocated there again when it is written: so the drive is thin,
 * and reports that.  A block device may be thin (a thin volume, a loop over a sparse file) and
 * cannot be asked: it reports that too.
 */
#define _GNU_SOURCE
#include "nvme/soft/nvme_soft_file.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_WAIT_NS (5 * NS_PER_S)  /* for a process that may be about to end */
#define LOCK_GONE_NS (60 * NS_PER_S) /* for writes of one that has ended       */

/* Data for reporting an error. */
struct ask {
	const struct nvme_name *name;
	const char *text;
	bool create;
	bool made; /* by us, now: unmade when we fail */
	char *err_text;
	size_t err_text_size;
};

#define refuse(ask, err, ...)                                                                      \
	(nvme__err_text((ask)->err_text, (ask)->err_text_size, (ask)->text, __VA_ARGS__), (err))

static int open_or_make(struct ask *ask, int *fd)
{
	const char *path = ask->name->path;

	*fd = open(path, O_RDWR | O_CLOEXEC);
	if (*fd >= 0)
		return 0;
	if (errno != ENOENT)
		return refuse(ask, -errno, "%s", strerror(errno));
	if (!ask->create)
		return refuse(ask, -ENOENT, "there is no such file");
	if (ask->name->size_bytes == 0)
		return refuse(ask, -EINVAL,
			      "there is no such file; to make it, add ?size=8G or so");
	*fd = open(path, O_RDWR | O_CLOEXEC | O_CREAT | O_EXCL, 0600);
	if (*fd < 0)
		return refuse(ask, -errno, "cannot be made: %s", strerror(errno));
	ask->made = true;
	return 0;
}

/*
 * Returns the process that has the lock; 0: a process that has ended, whose pid the kernel shows,
 * or nothing at all in a container.  Without /proc the process counts as running.
 */
static int holder(int fd)
{
	FILE *f = fopen("/proc/locks", "re");
	unsigned long inode;
	char line[256];
	int pid = f ? 0 : -1, one;
	struct stat st;

	if (f && fstat(fd, &st))
		pid = -1;
	while (f && pid == 0 && fgets(line, sizeof(line), f))
		if (sscanf(line, "%*s FLOCK %*s %*s %d %*x:%*x:%lu ", &one, &inode) == 2 &&
		    inode == st.st_ino) /* on another file system: one that lives, too */
			pid = one;
	if (f)
		(void)fclose(f);
	return pid > 0 && kill(pid, 0) && errno == ESRCH ? 0 : pid;
}

/*
 * The kernel holds a killed process's file until its last io_uring write has ended: 70 ms were
 * seen, 0.46 s on a disk that others synced to.  So a lock that is held now may be free soon.
 */
static int lock(const struct ask *ask, int fd)
{
	uint64_t begin_ns = clock_now_ns(), waited_ns = 0;
	struct timespec pause = { .tv_nsec = 10000000 };
	int pid = -1;

	while (flock(fd, LOCK_EX | LOCK_NB)) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return refuse(ask, -errno, "cannot be locked: %s", strerror(errno));
		if (waited_ns > LOCK_WAIT_NS)
			pid = holder(fd);
		if (waited_ns > LOCK_WAIT_NS && pid > 0)
			return refuse(ask, -EBUSY, "in use by another process (%d)", pid);
		if (waited_ns > (pid ? LOCK_WAIT_NS : LOCK_GONE_NS))
			return refuse(ask, -EBUSY, "in use by another process");
		nanosleep(&pause, NULL);
		waited_ns = clock_now_ns() - begin_ns;
	}
	return 0;
}

static int allocate(const struct ask *ask, int fd)
{
	uint64_t size = ask->name->size_bytes;

	if (size == 0)
		return refuse(ask, -EINVAL, "the file is empty; to fill it, add ?size=8G or so");
	if (fallocate(fd, 0, 0, (off_t)size) == 0)
		return 0;
	if (errno != EOPNOTSUPP)
		return refuse(ask, -errno, "no room for it: %s", strerror(errno));
	/* A file system that cannot reserve: then space may run out later, as a write fault. */
	if (ftruncate(fd, (off_t)size))
		return refuse(ask, -errno, "cannot be given its size: %s", strerror(errno));
	return 0;
}

static int measure(const struct ask *ask, int fd, uint64_t *size_bytes)
{
	uint64_t wanted = ask->name->size_bytes;
	struct stat st;
	int err = 0;

	if (fstat(fd, &st))
		return refuse(ask, -errno, "%s", strerror(errno));
	if (S_ISBLK(st.st_mode)) {
		if (ioctl(fd, BLKGETSIZE64, size_bytes))
			return refuse(ask, -errno, "its size is unknown: %s", strerror(errno));
	} else if (S_ISREG(st.st_mode)) {
		if (st.st_size == 0 && ask->create) {
			err = allocate(ask, fd);
			st.st_size = (off_t)wanted;
		}
		*size_bytes = (uint64_t)st.st_size;
	} else {
		return refuse(ask, -EINVAL, "neither a file nor a block device");
	}
	if (err)
		return err;
	if (wanted && wanted != *size_bytes)
		return refuse(ask, -EINVAL, "it has %llu bytes, not the %llu of its name",
			      (unsigned long long)*size_bytes, (unsigned long long)wanted);
	if (*size_bytes < NVME_BLOCK_SIZE)
		return refuse(ask, -EINVAL, "it has %llu bytes: too small for a drive",
			      (unsigned long long)*size_bytes);
	return 0;
}

/* Some file systems take the flag and then refuse the reads: try one. */
static bool go_direct(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	void *page = aligned_alloc(NVME_BLOCK_SIZE, NVME_BLOCK_SIZE);
	bool works = page && flags >= 0 && fcntl(fd, F_SETFL, flags | O_DIRECT) == 0 &&
		     pread(fd, page, NVME_BLOCK_SIZE, 0) == (ssize_t)NVME_BLOCK_SIZE;

	if (!works && flags >= 0)
		(void)!fcntl(fd, F_SETFL, flags);
	free(page);
	return works;
}

static void file_note(struct nvme_soft_back *back, char *text, size_t text_size)
{
	struct nvme_file_back *file = container_of(back, struct nvme_file_back, back);

	if (!file->direct)
		snprintf(text, text_size, "through the page cache: O_DIRECT does not work here");
	else if (atomic_load_explicit(&file->buffers_refused, memory_order_relaxed))
		snprintf(text, text_size,
			 "the limit of locked memory (memlock) is too low for its buffers, which "
			 "costs speed; raise it (ulimit -l, LimitMEMLOCK=)");
}

static void file_shutdown(struct nvme_soft_back *back)
{
	struct nvme_file_back *file = container_of(back, struct nvme_file_back, back);

	/* The result is not needed: everything that must be durable was flushed before. */
	(void)!fdatasync(file->fd);
}

static void file_destroy(struct nvme_soft_back *back)
{
	struct nvme_file_back *file = container_of(back, struct nvme_file_back, back);

	/* The kernel keeps a ring's files until it has taken the ring apart, later. */
	(void)flock(file->fd, LOCK_UN);
	close(file->fd);
	free(file);
}

static void fill_in(struct nvme_file_back *file, uint64_t size_bytes)
{
	struct stat st = { 0 };

	(void)!fstat(file->fd, &st);
	file->back = (struct nvme_soft_back){
		.traits = { .nblocks = size_bytes / NVME_BLOCK_SIZE,
			    .lba_shift = 9,
			    .atomic_lbas = 1,
			    .mdts = 7,
			    .volatile_cache = true,
			    .frees = true,
			    .thin = true,
			    .range_lbas_max = NVME_RANGE_BLOCKS_MAX << (NVME_BLOCK_SHIFT - 9),
			    .model = "weka soft controller, file" },
		.batch_bytes = UINT32_MAX,
		/* For O_DIRECT 512 would suffice nearly everywhere, but is not used. */
		.buffer_align = file->direct ? NVME_BLOCK_SIZE : 4,
		.queue_create = nvme__uring_create,
		.queue_destroy = nvme__uring_destroy,
		.run = nvme__uring_run,
		.wake_fd = nvme__uring_wake_fd,
		.arm = nvme__uring_arm,
		.disarm = nvme__uring_disarm,
		.shutdown = file_shutdown,
		.note = file_note,
		.stats = nvme__uring_stats,
		.destroy = file_destroy,
	};
	snprintf(file->back.traits.serial, sizeof(file->back.traits.serial), "%04llx-%llx",
		 (unsigned long long)st.st_dev & 0xffff,
		 (unsigned long long)st.st_ino & 0xffffffffffff);
}

int nvme__soft_file_create(struct nvme_soft_back **out, const struct nvme_name *name,
			   const char *text, bool create, char *err_text, size_t err_text_size)
{
	struct ask ask = { name, text, create, false, err_text, err_text_size };
	struct nvme_file_back *file;
	uint64_t size_bytes = 0;
	int fd, err;

	err = nvme__uring_probe();
	if (err)
		return refuse(&ask, err, "no io_uring here (%s): see kernel.io_uring_disabled",
			      strerror(-err));
	err = open_or_make(&ask, &fd);
	if (err)
		return err;
	err = lock(&ask, fd);
	if (!err)
		err = measure(&ask, fd, &size_bytes);
	if (err)
		goto unmake;
	file = calloc(1, sizeof(*file));
	if (!file) {
		err = refuse(&ask, -ENOMEM, "out of memory");
		goto unmake;
	}
	file->fd = fd;
	file->direct = go_direct(fd);
	fill_in(file, size_bytes);
	*out = &file->back;
	return 0;

unmake:
	if (ask.made)
		(void)!unlink(name->path);
	close(fd);
	return err;
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The kernel's side of a mount: made, negotiated, cloned, taken away.
 *
 * Root mounts with mount(2).  Another user cannot, and asks fusermount3 (package fuse3), which is
 * set-user-ID root, checks that the directory is the user's, and sends the descriptor of /dev/fuse
 * through a socket.
 *
 * The descriptors do not block: a worker polls /dev/fuse together with its session.
 */
#define _GNU_SOURCE
#include "client-lib/mount/mount.h"

#include "base/num.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FUSERMOUNT "fusermount3"

/* Of kernels that are newer than the header. */
#define INIT_DIRECT_IO_ALLOW_MMAP (1ull << 36)

static int failed(const char *what, const char *name)
{
	int err = errno ? -errno : -EIO;

	fprintf(stderr, "weka-mount: %s %s: %s\n", what, name, strerror(-err));
	return err;
}

/* ---- by mount(2) ----------------------------------------------------------------------------- */

static int mount_as_root(const struct mount_args *args)
{
	char data[256];
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return failed("cannot open", "/dev/fuse");
	snprintf(data, sizeof(data), "fd=%d,rootmode=40000,user_id=%u,group_id=%u,%s%s", fd,
		 getuid(), getgid(), "default_permissions",
		 args->allow_other ? ",allow_other" : "");
	if (mount(args->addresses, args->dir, "fuse.weka", args->flags, data) < 0) {
		int err = failed("cannot mount on", args->dir);

		close(fd);
		return err;
	}
	return fd;
}

/* ---- by fusermount3 -------------------------------------------------------------------------- */

/* Returns the descriptor that comes through the socket. */
static int descriptor_from(int socket)
{
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec part = { &byte, 1 };
	struct msghdr m = { .msg_iov = &part,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	const struct cmsghdr *head;
	int fd;

	if (recvmsg(socket, &m, MSG_CMSG_CLOEXEC) <= 0)
		return -EPERM; /* it has said why */
	head = CMSG_FIRSTHDR(&m);
	if (!head || head->cmsg_type != SCM_RIGHTS)
		return -EPERM;
	memcpy(&fd, CMSG_DATA(head), sizeof(fd));
	return fd;
}

static void options_text(const struct mount_args *args, char *text, size_t size)
{
	snprintf(text, size, "fsname=%s,subtype=weka,default_permissions%s%s%s", args->addresses,
		 args->allow_other ? ",allow_other" : "", args->flags & MS_RDONLY ? ",ro" : "",
		 args->flags & MS_NOEXEC ? ",noexec" : "");
	/* fusermount3 takes a comma with a backslash before it as part of the name. */
	for (size_t i = 7; i < 7 + strlen(args->addresses) && i < size; i++)
		if (text[i] == ',')
			text[i] = ' ';
}

static pid_t run_fusermount(const struct mount_args *args, int socket)
{
	char options[1024], number[16];
	pid_t child;

	options_text(args, options, sizeof(options));
	snprintf(number, sizeof(number), "%d", socket);
	child = fork();
	if (child != 0)
		return child;
	setenv("_FUSE_COMMFD", number, 1);
	execlp(FUSERMOUNT, FUSERMOUNT, "-o", options, "--", args->dir, (char *)NULL);
	fprintf(stderr, "weka-mount: only root can mount without %s: install fuse3\n", FUSERMOUNT);
	_exit(127);
}

static int mount_as_user(const struct mount_args *args)
{
	int socket[2], fd, flags;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, socket) < 0)
		return failed("cannot make", "a socket");
	fcntl(socket[1], F_SETFD, FD_CLOEXEC);
	child = run_fusermount(args, socket[0]);
	close(socket[0]);
	fd = child < 0 ? -errno : descriptor_from(socket[1]);
	close(socket[1]);
	if (child > 0)
		(void)waitpid(child, NULL, 0);
	if (fd < 0)
		return fd;
	flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return failed("cannot use", "/dev/fuse");
	return fd;
}

int mount_kernel(const struct mount_args *args)
{
	struct stat st;
	int err = mount_clear(args);

	if (err)
		return err;
	if (stat(args->dir, &st) < 0)
		return failed("cannot mount on", args->dir);
	if (!S_ISDIR(st.st_mode)) {
		errno = ENOTDIR;
		return failed("cannot mount on", args->dir);
	}
	return geteuid() == 0 ? mount_as_root(args) : mount_as_user(args);
}

int mount_unmount(const struct mount_args *args)
{
	pid_t child;
	int status;

	if (geteuid() == 0)
		return umount2(args->dir, MNT_DETACH | UMOUNT_NOFOLLOW) < 0 ? -errno : 0;
	child = fork();
	if (child == 0) {
		execlp(FUSERMOUNT, FUSERMOUNT, "-u", "-q", "-z", "--", args->dir, (char *)NULL);
		_exit(127);
	}
	return child > 0 && waitpid(child, &status, 0) == child && status == 0 ? 0 : -EPERM;
}

/* ---- negotiated ------------------------------------------------------------------------------ */

/* Returns the features that the mount asks for. */
static uint64_t wanted(const struct mount_fs *fs)
{
	uint64_t flags = FUSE_ASYNC_READ | FUSE_ATOMIC_O_TRUNC | FUSE_BIG_WRITES |
			 FUSE_AUTO_INVAL_DATA | FUSE_ASYNC_DIO | FUSE_PARALLEL_DIROPS |
			 FUSE_MAX_PAGES | FUSE_CACHE_SYMLINKS | FUSE_INIT_EXT |
			 INIT_DIRECT_IO_ALLOW_MMAP;

	if (fs->args.cache_ns > 0)
		flags |= FUSE_DO_READDIRPLUS | FUSE_READDIRPLUS_AUTO;
	return flags;
}

static void init_out(struct mount_fs *fs, const struct fuse_init_in *in, struct fuse_init_out *out)
{
	uint64_t flags = in->flags | (in->flags & FUSE_INIT_EXT ? (uint64_t)in->flags2 << 32 : 0);

	flags &= wanted(fs);
	fs->direct =
		fs->args.cache_ns == 0 && !fs->args.buffered && flags & INIT_DIRECT_IO_ALLOW_MMAP;
	*out = (struct fuse_init_out){
		.major = FUSE_KERNEL_VERSION,
		.minor = FUSE_KERNEL_MINOR_VERSION,
		.max_readahead = min_u32(in->max_readahead, MOUNT_IO_MAX),
		.flags = (uint32_t)flags,
		.flags2 = (uint32_t)(flags >> 32),
		.max_background = 64,
		.congestion_threshold = 48,
		.max_write = MOUNT_IO_MAX,
		.time_gran = 1,
		.max_pages = MOUNT_IO_MAX / 4096,
	};
}

/* Reads the first request, which the kernel sends at once. */
static ssize_t first_request(int fuse_fd, void *bytes, size_t size)
{
	struct pollfd fd = { .fd = fuse_fd, .events = POLLIN };
	ssize_t got;

	do {
		if (poll(&fd, 1, 10000) <= 0)
			return -1;
		got = read(fuse_fd, bytes, size);
	} while (got < 0 && (errno == EAGAIN || errno == EINTR));
	return got;
}

int mount_negotiate(struct mount_fs *fs, int fuse_fd)
{
	static _Alignas(8) char bytes[MOUNT_IO_MAX + 4096];
	const struct fuse_in_header *head = (const void *)bytes;
	const struct fuse_init_in *in = (const void *)(bytes + sizeof(*head));
	ssize_t got = first_request(fuse_fd, bytes, sizeof(bytes));
	struct {
		struct fuse_out_header head;
		struct fuse_init_out init;
	} out = { .head = { .len = sizeof(out) } };

	if (got < (ssize_t)(sizeof(*head) + 16) || head->opcode != FUSE_INIT)
		return failed("the kernel does not begin", "as expected");
	if (in->major != FUSE_KERNEL_VERSION || in->minor < 31) {
		errno = EPROTONOSUPPORT;
		return failed("FUSE of this kernel is too old,", "Linux 5.4 is needed");
	}
	out.head.unique = head->unique;
	init_out(fs, in, &out.init);
	if (write(fuse_fd, &out, sizeof(out)) < 0)
		return failed("the kernel refuses", "the session");
	return 0;
}

int mount_clone(int fuse_fd)
{
	uint32_t from = (uint32_t)fuse_fd;
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return -errno;
	if (ioctl(fd, FUSE_DEV_IOC_CLONE, &from) < 0) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

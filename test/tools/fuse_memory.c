/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A FUSE file system that answers from memory, to measure the kernel's part of a mount.  It asks
 * the kernel for the same features as weka-mount, and its threads wait in the same way.
 *
 *     fuse_memory DIR THREADS CACHE-SECONDS     serves in the foreground until it is unmounted
 *
 * It has what a benchmark of files needs: names made, looked up, listed, removed; reads and writes.
 * One lock protects all; permissions and times are not kept.
 */
#include "client-lib/mount/mount.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/num.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUCKETS        (1u << 16)
#define POLL_NS        (50 * NS_PER_US) /* as weka-mount's */
#define NAME_MAX_BYTES 255u

struct file {
	struct file *next; /* in its bucket */
	struct file *parent;
	struct file **child; /* of a directory, in the order of their creation; NULL: removed */
	uint64_t child_count;
	char *bytes;
	uint64_t size_bytes, room_bytes;
	uint32_t mode;
	char name[NAME_MAX_BYTES + 1];
};

/* A request, its thread's answer, and what is left of it. */
struct call {
	int fuse_fd;
	const struct fuse_in_header *head;
	const void *args;
	struct file *at;
	char *out;
	char in[MOUNT_IO_MAX + 4096];
};

static struct mount_fs fs;
static struct file root = { .mode = S_IFDIR | 0755 };
static struct file *bucket[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct file **place_of(const struct file *parent, const char *name)
{
	return &bucket[hash_bytes((uint64_t)(uintptr_t)parent, name, strlen(name)) % BUCKETS];
}

static struct file *find(const struct file *parent, const char *name)
{
	struct file *f = *place_of(parent, name);

	while (f && (f->parent != parent || strcmp(f->name, name) != 0))
		f = f->next;
	return f;
}

static struct file *add(struct file *parent, const char *name, uint32_t mode)
{
	struct file *f = calloc(1, sizeof(*f)), **place = place_of(parent, name);
	struct file **child =
		realloc(parent->child, (parent->child_count + 1) * sizeof(struct file *));

	if (!f || !child || strlen(name) > NAME_MAX_BYTES)
		abort();
	snprintf(f->name, sizeof(f->name), "%s", name);
	f->mode = mode;
	f->parent = parent;
	f->next = *place;
	*place = f;
	parent->child = child;
	parent->child[parent->child_count++] = f;
	return f;
}

/* The kernel may still know the file: it is not freed. */
static int take_out(struct file *parent, const char *name)
{
	struct file **link = place_of(parent, name), *f = find(parent, name);

	if (!f)
		return -ENOENT;
	while (*link != f)
		link = &(*link)->next;
	*link = f->next;
	for (uint64_t i = 0; i < parent->child_count; i++)
		if (parent->child[i] == f)
			parent->child[i] = NULL;
	free(f->bytes);
	f->bytes = NULL;
	f->size_bytes = f->room_bytes = 0;
	return 0;
}

static void resize(struct file *f, uint64_t size_bytes)
{
	if (size_bytes > f->room_bytes) {
		f->room_bytes = max_u64(size_bytes, f->room_bytes * 2);
		f->bytes = realloc(f->bytes, f->room_bytes);
		if (!f->bytes)
			abort();
	}
	if (size_bytes > f->size_bytes)
		memset(f->bytes + f->size_bytes, 0, size_bytes - f->size_bytes);
	f->size_bytes = size_bytes;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void answer(const struct call *c, int err, const void *bytes, size_t size)
{
	struct fuse_out_header head = { .len = (uint32_t)(sizeof(head) + (err ? 0 : size)),
					.error = err,
					.unique = c->head->unique };
	struct iovec part[2] = { { &head, sizeof(head) }, { (void *)(uintptr_t)bytes, size } };

	(void)!writev(c->fuse_fd, part, !err && size ? 2 : 1);
}

static struct fuse_attr attr_of(const struct file *f)
{
	return (struct fuse_attr){ .ino = (uint64_t)(uintptr_t)f,
				   .size = f->size_bytes,
				   .blocks = div_up(f->size_bytes, 512),
				   .mode = f->mode,
				   .nlink = 1,
				   .blksize = 128u << 10 };
}

static struct fuse_entry_out entry_of(const struct file *f)
{
	return (struct fuse_entry_out){ .nodeid = (uint64_t)(uintptr_t)f,
					.entry_valid = fs.args.cache_ns / NS_PER_S,
					.attr_valid = fs.args.cache_ns / NS_PER_S,
					.attr = attr_of(f) };
}

static void answer_entry(const struct call *c, const struct file *f)
{
	const struct fuse_entry_out out = entry_of(f);

	answer(c, 0, &out, sizeof(out));
}

static void answer_attr(const struct call *c)
{
	const struct fuse_attr_out out = { .attr_valid = fs.args.cache_ns / NS_PER_S,
					   .attr = attr_of(c->at) };

	answer(c, 0, &out, sizeof(out));
}

static struct fuse_open_out opened(void)
{
	return (struct fuse_open_out){ .open_flags = fs.direct
							     ? FOPEN_DIRECT_IO |
								       FOPEN_PARALLEL_DIRECT_WRITES
						     : fs.args.cache_ns > 0 ? FOPEN_KEEP_CACHE
									    : 0 };
}

static void list_from(struct call *c, uint64_t first, size_t room)
{
	size_t used = 0;

	for (uint64_t i = first; i < c->at->child_count; i++) {
		const struct file *f = c->at->child[i];
		struct fuse_dirent entry = { .off = i + 1 };
		size_t name_bytes, size;

		if (!f)
			continue;
		name_bytes = strlen(f->name);
		size = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + name_bytes);
		if (used + size > room)
			break;
		entry.ino = (uint64_t)(uintptr_t)f;
		entry.namelen = (uint32_t)name_bytes;
		entry.type = f->mode >> 12;
		memset(c->out + used, 0, size);
		memcpy(c->out + used, &entry, FUSE_NAME_OFFSET);
		memcpy(c->out + used + FUSE_NAME_OFFSET, f->name, name_bytes);
		used += size;
	}
	answer(c, 0, c->out, used);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void create(const struct call *c)
{
	const struct fuse_create_in *in = c->args;
	const char *name = (const char *)(in + 1);
	struct {
		struct fuse_entry_out entry;
		struct fuse_open_out open;
	} out = { .open = opened() };

	out.entry = entry_of(add(c->at, name, in->mode));
	answer(c, 0, &out, sizeof(out));
}

static void read_bytes(const struct call *c)
{
	const struct fuse_read_in *in = c->args;
	const uint64_t at = min_u64(in->offset, c->at->size_bytes);

	answer(c, 0, c->at->bytes ? c->at->bytes + at : "",
	       min_u64(in->size, c->at->size_bytes - at));
}

static void write_bytes(const struct call *c)
{
	const struct fuse_write_in *in = c->args;
	const struct fuse_write_out out = { .size = in->size };

	if (in->offset + in->size > c->at->size_bytes)
		resize(c->at, in->offset + in->size);
	memcpy(c->at->bytes + in->offset, in + 1, in->size);
	answer(c, 0, &out, sizeof(out));
}

static void set_attr(const struct call *c)
{
	const struct fuse_setattr_in *in = c->args;

	if (in->valid & FATTR_SIZE)
		resize(c->at, in->size);
	answer_attr(c);
}

static void open_file(const struct call *c)
{
	const struct fuse_open_in *in = c->args;
	const struct fuse_open_out out = opened();

	if (c->head->opcode == FUSE_OPEN && in->flags & O_TRUNC)
		c->at->size_bytes = 0;
	answer(c, 0, &out, sizeof(out));
}

/* Names. */
static void serve_name(const struct call *c)
{
	const struct fuse_mkdir_in *in = c->args;
	const struct file *f;

	switch (c->head->opcode) {
	case FUSE_LOOKUP:
		f = find(c->at, c->args);
		if (f)
			answer_entry(c, f);
		else
			answer(c, -ENOENT, NULL, 0);
		break;
	case FUSE_MKDIR:
		answer_entry(c, add(c->at, (const char *)(in + 1), in->mode | S_IFDIR));
		break;
	default: /* FUSE_UNLINK, FUSE_RMDIR */
		answer(c, take_out(c->at, c->args), NULL, 0);
	}
}

static void serve(struct call *c)
{
	const struct fuse_read_in *page = c->args;
	static const struct fuse_statfs_out space = { .st = { .bsize = 4096, .namelen = 255 } };

	switch (c->head->opcode) {
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break;
	case FUSE_LOOKUP:
	case FUSE_MKDIR:
	case FUSE_UNLINK:
	case FUSE_RMDIR:
		serve_name(c);
		break;
	case FUSE_GETATTR:
		answer_attr(c);
		break;
	case FUSE_SETATTR:
		set_attr(c);
		break;
	case FUSE_OPEN:
	case FUSE_OPENDIR:
		open_file(c);
		break;
	case FUSE_CREATE:
		create(c);
		break;
	case FUSE_READ:
		read_bytes(c);
		break;
	case FUSE_WRITE:
		write_bytes(c);
		break;
	case FUSE_READDIR:
		list_from(c, page->offset, page->size);
		break;
	case FUSE_STATFS:
		answer(c, 0, &space, sizeof(space));
		break;
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR:
	case FUSE_DESTROY:
		answer(c, 0, NULL, 0);
		break;
	default:
		answer(c, -ENOSYS, NULL, 0);
	}
}

/* ---- threads --------------------------------------------------------------------------------- */

static void *worker(void *of)
{
	struct call *c = of;
	uint64_t busy_until_ns = 0;

	c->head = (const void *)c->in;
	c->args = c->in + sizeof(*c->head);
	for (;;) {
		ssize_t got = read(c->fuse_fd, c->in, sizeof(c->in));

		if (got > 0) {
			c->at = c->head->nodeid == FUSE_ROOT_ID
					? &root
					: (struct file *)(uintptr_t)c->head->nodeid;
			pthread_mutex_lock(&lock);
			serve(c);
			pthread_mutex_unlock(&lock);
			busy_until_ns = clock_now_ns() + POLL_NS;
		} else if (errno == ENODEV) {
			return NULL;
		} else if (errno == EAGAIN && clock_now_ns() >= busy_until_ns) {
			struct pollfd fd = { .fd = c->fuse_fd, .events = POLLIN };

			(void)poll(&fd, 1, -1);
		}
	}
}

int main(int argc, char **argv)
{
	pthread_t thread[MOUNT_WORKERS_MAX];
	uint32_t count = argc == 4 ? (uint32_t)atoi(argv[2]) : 0;
	int fuse_fd;

	if (count < 1 || count > MOUNT_WORKERS_MAX) {
		fprintf(stderr, "usage: fuse_memory DIR THREADS CACHE-SECONDS\n");
		return 2;
	}
	fs.args = (struct mount_args){ .addresses = "memory", .dir = argv[1] };
	fs.args.cache_ns = (uint64_t)atoi(argv[3]) * NS_PER_S;
	fuse_fd = mount_kernel(&fs.args);
	if (fuse_fd < 0 || mount_negotiate(&fs, fuse_fd))
		return 1;
	for (uint32_t i = 0; i < count; i++) {
		struct call *c = calloc(1, sizeof(*c));

		if (!c)
			abort();
		c->out = malloc(MOUNT_IO_MAX);
		c->fuse_fd = i == 0 ? fuse_fd : mount_clone(fuse_fd);
		if (!c->out || c->fuse_fd < 0 || pthread_create(&thread[i], NULL, worker, c))
			abort();
	}
	for (uint32_t i = 0; i < count; i++)
		(void)pthread_join(thread[i], NULL);
	return 0;
}

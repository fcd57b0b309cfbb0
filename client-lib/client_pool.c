/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Pools of the caller's memory.
 *
 *    weka_pool_add()    added[i]: checked and mapped ---> offered to each lane ---> leases
 *    a new lane         ... and to each lane that comes later, before it is UP
 *
 * The library's own pool (client_conn.c) is one of the connection's pools; these are the others.
 * Over tcp and rdma any memory will do.  Over shm the appliance maps it, too: it must be a memfd.
 *
 * After a session over shm broke, its drives may still write into the library's own pool, which
 * therefore gets new memory.  Memory of the caller's stays: the appliance admits a client again
 * only when all work of its earlier sessions has ended (PROTOCOL.md 3), and an appliance that is
 * gone writes nothing.
 *
 * Invariants:
 *
 *  (1) A lane that is UP knows the first `added_count` pools, but for one that is being added.
 *  (2) A pool from which leases are cut is one of them, and stays until the client is closed.
 */
#define _GNU_SOURCE /* F_GET_SEALS */
#include "client-lib/client_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
#define TMPFS      0x01021994 /* f_type of a memfd without MFD_HUGETLB */

/* ---- lanes ------------------------------------------------------------------------------- */

int client__added_begin(struct weka_client *c, struct client_lane *lane)
{
	int err = 0;

	ASSERT(lane->conn && c->added_count <= CLIENT_ADDED_MAX);
	for (uint32_t i = 0; i < c->added_count && !err; i++) {
		const struct weka_pool *p = &c->added[i];

		if (!lane->added[i])
			err = fab_pool_lend(lane->conn, p->memory, p->size_bytes, p->fd,
					    &lane->added[i]);
	}
	return err;
}

int client__added_status(const struct weka_client *c, const struct client_lane *lane)
{
	int status = 0;

	ASSERT(lane->conn && c->added_count <= CLIENT_ADDED_MAX);
	for (uint32_t i = 0; i < c->added_count && !status; i++)
		status = lane->added[i] ? fab_region_status(lane->added[i]) : -EINPROGRESS;
	return status;
}

/* Returns the first error of a lane that is UP, -EINPROGRESS, or 0: all know the pools. */
static int added_everywhere(const struct weka_client *c)
{
	int status = c->at == CLIENT_UP ? 0 : -EINPROGRESS;

	ASSERT(c->added_count > 0);
	if (c->dead)
		return c->dead;
	for (uint32_t i = 0; i < c->lane_count && status == 0; i++)
		if (c->lanes[i].at == CLIENT_UP)
			status = client__added_status(c, &c->lanes[i]);
	return status == -ECONNRESET ? -EINPROGRESS : status; /* the next turn closes the lane */
}

/* Takes back the pool that was added last: no lease was cut from it. */
static wk_cold void added_undo(struct weka_client *c)
{
	ASSERT(c->added_count > 0);
	c->added_count--;
	for (uint32_t i = 0; i < CLIENT_LANES_MAX; i++)
		c->lanes[i].added[c->added_count] = NULL;
	c->next.added[c->added_count] = NULL;
}

/* Offers the pool that was added last, and waits for the appliance. */
static int added_offer(struct weka_client *c)
{
	const uint64_t until_ns = client__after(clock_now_ns(), c->timeout_ns);
	int err = 0;

	ASSERT(c->nested > 0 && c->added_count > 0);
	for (uint32_t i = 0; i < c->lane_count && !err; i++)
		if (c->lanes[i].at == CLIENT_UP || c->lanes[i].at == CLIENT_POOL)
			err = client__added_begin(c, &c->lanes[i]);
	if (!err && c->at == CLIENT_POOL)
		err = client__added_begin(c, &c->next);
	if (err == -ENOTCONN || err == -ECONNRESET)
		err = 0; /* the next session gets it */
	c->in_leaf = true;
	while (!err) {
		client__hurry(c);
		client__progress(c);
		err = added_everywhere(c);
		if (err != -EINPROGRESS)
			break;
		err = c->now_ns < until_ns ? 0 : -ETIMEDOUT;
		if (!err)
			(void)!client__sleep(c, until_ns);
	}
	c->in_leaf = false;
	return err;
}

/* ---- the caller's memory ------------------------------------------------------------------ */

static int fd_bad(struct weka_client *c, int err, const char *why)
{
	ASSERT(err < 0 && why);
	return client__say(c, err, "weka_pool_add: the descriptor %s", why);
}

/* Seals the size of a memfd, and refuses any other descriptor. */
static int fd_check(struct weka_client *c, int fd, uint64_t size_bytes)
{
	int seals = fcntl(fd, F_GET_SEALS), mode = fcntl(fd, F_GETFL);
	struct statfs fs;
	struct stat st;

	ASSERT(size_bytes > 0 && c->nested > 0);
	if (mode < 0)
		return fd_bad(c, -EBADF, "is not open");
	if (seals < 0 || fstatfs(fd, &fs) < 0 || fs.f_type != TMPFS)
		return fd_bad(c, -EINVAL, "is no memfd of ordinary pages (memfd_create(2))");
	if ((mode & O_ACCMODE) != O_RDWR)
		return fd_bad(c, -EINVAL, "is not open for reading and writing");
	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size != size_bytes)
		return fd_bad(c, -EINVAL, "has another size than size_bytes");
	if ((seals & SIZE_SEALS) != SIZE_SEALS && fcntl(fd, F_ADD_SEALS, SIZE_SEALS) < 0)
		return fd_bad(c, -EINVAL,
			      "cannot be sealed: make the memfd with MFD_ALLOW_SEALING");
	return 0;
}

static int fd_take(struct weka_client *c, struct weka_pool *p, const struct weka_memory *m)
{
	int err = fd_check(c, m->fd, m->size_bytes);

	ASSERT(p->fd < 0 && !p->memory);
	if (err)
		return err;
	p->fd = fcntl(m->fd, F_DUPFD_CLOEXEC, 0);
	if (p->fd < 0)
		return fd_bad(c, -errno, strerror(errno));
	p->memory = m->data;
	if (m->data)
		return 0;
	p->memory = mmap(NULL, m->size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
	p->is_mapped = p->memory != MAP_FAILED;
	if (!p->is_mapped)
		p->memory = NULL;
	return p->is_mapped ? 0 : fd_bad(c, -errno, strerror(errno));
}

/* Makes the pages present now, which also finds addresses where nothing can be written. */
static int memory_touch(struct weka_client *c, const struct weka_pool *p)
{
	ASSERT(p->memory && (uintptr_t)p->memory % WEKA_BLOCK == 0);
	if (madvise(p->memory, p->size_bytes, MADV_POPULATE_WRITE) == 0 || errno == EINVAL)
		return 0; /* EINVAL: an older kernel, or memory of a device */
	return client__say(c, errno == ENOMEM || errno == EFAULT ? -EINVAL : -errno,
			   "weka_pool_add: not all of the memory can be written to: %s",
			   strerror(errno));
}

static const char *memory_wrong(const struct weka_memory *m)
{
	if (m->kind > WEKA_MEMORY_DMABUF)
		return "struct weka_memory: a kind that does not exist";
	for (uint32_t i = 0; i < 4; i++)
		if (m->reserved[i])
			return "struct weka_memory: a reserved field is not 0";
	if (m->size_bytes == 0 || m->size_bytes % WEKA_POOL_UNIT || m->size_bytes > 1ull << 40)
		return "struct weka_memory: size_bytes must be a multiple of 2 MiB";
	if ((uintptr_t)m->data % WEKA_BLOCK)
		return "struct weka_memory: data must be at a multiple of 4096";
	if (m->kind == WEKA_MEMORY_HOST && !m->data)
		return "struct weka_memory: data is NULL";
	return NULL;
}

static void pool_free(struct weka_pool *p)
{
	ASSERT(p->runs.used_units == 0 || p->memory); /* leases go with the client: (2) */
	client__pool_destroy(&p->runs);
	if (p->is_mapped)
		munmap(p->memory, p->size_bytes);
	if (p->fd >= 0)
		close(p->fd);
	*p = (struct weka_pool){ .fd = -1 };
}

static int pool_take(struct weka_client *c, struct weka_pool *p, const struct weka_memory *m)
{
	int err = 0;

	ASSERT(!p->runs.run && m->size_bytes % WEKA_POOL_UNIT == 0);
	*p = (struct weka_pool){ .fd = -1, .size_bytes = m->size_bytes };
	if (m->kind == WEKA_MEMORY_FD)
		err = fd_take(c, p, m);
	else
		p->memory = m->data;
	if (!err)
		err = memory_touch(c, p);
	return err ? err : client__pool_create(&p->runs, p->size_bytes);
}

/* Writes the line about an offer that failed. */
static wk_cold int offer_failed(struct weka_client *c, int err)
{
	ASSERT(err < 0 && err != -EINPROGRESS);
	switch (err) {
	case -EOPNOTSUPP:
		return client__say(c, err,
				   "weka_pool_add: over shm the appliance must map the memory: "
				   "give a memfd, to an appliance of version 0.1 or later");
	case -ENOSPC:
		return client__say(c, err,
				   "weka_pool_add: the appliance grants this client no more "
				   "memory: raise session_pools_max or pools_max");
	default:
		return client__say(c, err, "weka_pool_add: %s", strerror(-err));
	}
}

static int pool_add(struct weka_client *c, const struct weka_memory *m, struct weka_pool **out)
{
	struct weka_pool *p = &c->added[c->added_count];
	int err;

	if (m->kind == WEKA_MEMORY_DMABUF)
		return client__say(c, -EOPNOTSUPP,
				   "weka_pool_add: memory of a device (dmabuf) cannot be a pool: "
				   "the library reads it to verify checksums");
	if (c->added_count == CLIENT_ADDED_MAX)
		return client__say(c, -ENOSPC, "weka_pool_add: a client has at most %u pools",
				   CLIENT_ADDED_MAX);
	err = pool_take(c, p, m);
	if (!err) {
		c->added_count++;
		err = added_offer(c);
		if (err) {
			(void)offer_failed(c, err);
			added_undo(c);
		}
	}
	if (err)
		pool_free(p);
	else
		*out = p;
	ASSERT(err || client__added_is(c, p)); /* (2) */
	return err;
}

int weka_pool_add(struct weka_client *c, const struct weka_memory *memory, struct weka_pool **out)
{
	const char *wrong;

	CLIENT_NEED(c, memory);
	CLIENT_NEED(c, out);
	wrong = memory_wrong(memory);
	CLIENT_REFUSE(c, wrong, -EINVAL, wrong);
	return CLIENT_BEGUN(c, pool_add(c, memory, out));
}

void client__added_destroy(struct weka_client *c)
{
	ASSERT(!c->lanes[0].conn); /* no card has it registered any more */
	while (c->added_count > 0)
		pool_free(&c->added[--c->added_count]);
}

uint64_t client__added_bytes(const struct weka_client *c, const struct weka_pool *pool)
{
	ASSERT(pool);
	return client__added_is(c, pool) ? pool->size_bytes : 0;
}

bool client__added_is(const struct weka_client *c, const struct weka_pool *pool)
{
	ASSERT(c->added_count <= CLIENT_ADDED_MAX);
	for (uint32_t i = 0; i < c->added_count; i++)
		if (pool == &c->added[i])
			return true;
	return false;
}

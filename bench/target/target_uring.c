/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * uring:DIR - reads of a local directory by io_uring and O_DIRECT, many at once in one thread.
 * Everything else is done by plain calls.
 *
 *   waiting groups -> a slot an io:  OPEN -> READ, READ ... -> CLOSE   each one SQE
 *
 * Ranges of few files (TARGET_KEEP_OPEN) share a descriptor, which stays open.
 *
 * Invariants:
 *
 *  (1) A slot is free, or has one request in the ring.
 *  (2) A kept descriptor that slots use is not replaced. [test_bench_target:uring_ranges]
 */
#define _GNU_SOURCE
#include "base/num.h"
#include "bench/bench.h"
#include "bench/target/target_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SLOTS_MAX 256u
#define PIECE     (1u << 20)
#define BLOCK     4096u
#define KEPT      64u

enum stage { FREE, OPENING, READING, CLOSING };

struct shared_file {
	int fd;
	uint32_t users;
	char path[TARGET_PATH_MAX];
};

struct slot {
	enum stage at;
	int fd;
	int err;
	struct shared_file *file; /* whose descriptor it is; NULL: the slot's own */
	struct target_group *group;
	struct target_io *io;
	uint64_t from; /* READING: offset of the request */
	uint32_t want;
	uint8_t *buffer;
};

struct session {
	struct io_uring ring;
	const struct target__dir *dir;
	struct target_group *waiting, **waiting_last;
	uint32_t slot_count, busy;
	uint8_t *memory;
	struct shared_file file[KEPT];
	struct target__kept none;
	struct slot slot[SLOTS_MAX];
};

static int uring_open(struct target *t, const char *where)
{
	if (target__dir_open(t, where, O_DIRECT))
		return 1;
	t->promise.cache = "none (O_DIRECT, io_uring)";
	return 0;
}

static int session_open(struct target_session *s)
{
	struct session *p = calloc(1, sizeof(*p));
	int err;

	if (!p)
		return bench_fail("out of memory");
	p->dir = s->target->own;
	p->waiting_last = &p->waiting;
	p->none.fd = -1;
	p->slot_count = min_u32(s->target->options.depth, SLOTS_MAX);
	for (uint32_t i = 0; i < KEPT; i++)
		p->file[i].fd = -1;
	p->memory = target__pages((uint64_t)p->slot_count * PIECE + TARGET__RING);
	err = p->memory ? io_uring_queue_init(SLOTS_MAX, &p->ring, 0) : -ENOMEM;
	if (err) {
		free(p);
		return bench_fail("io_uring: %s", strerror(-err));
	}
	for (uint32_t i = 0; i < p->slot_count; i++)
		p->slot[i].buffer = p->memory + (uint64_t)i * PIECE;
	s->own = p;
	return 0;
}

static void session_close(struct target_session *s)
{
	struct session *p = s->own;

	ASSERT(p->busy == 0);
	io_uring_queue_exit(&p->ring);
	for (uint32_t i = 0; i < KEPT; i++)
		if (p->file[i].fd >= 0)
			close(p->file[i].fd);
	munmap(p->memory, (uint64_t)p->slot_count * PIECE + TARGET__RING);
	free(p);
}

static uint64_t end_of(const struct target_io *io)
{
	return io->length_bytes == TARGET_TO_END ? UINT64_MAX : io->offset_bytes + io->length_bytes;
}

/* ---- one io ------------------------------------------------------------------------ */

static struct io_uring_sqe *entry(struct session *p, struct slot *slot, enum stage at)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&p->ring);

	ASSERT(sqe); /* (1): as many entries as slots */
	slot->at = at;
	return sqe;
}

static void begin_open(struct session *p, struct slot *slot)
{
	struct io_uring_sqe *sqe = entry(p, slot, OPENING);

	io_uring_prep_openat(sqe, p->dir->fd, slot->io->path,
			     O_RDONLY | O_CLOEXEC | p->dir->read_flags, 0);
	io_uring_sqe_set_data(sqe, slot);
}

static void begin_read(struct session *p, struct slot *slot)
{
	uint64_t at = slot->io->offset_bytes + slot->io->got_bytes;
	struct io_uring_sqe *sqe = entry(p, slot, READING);

	slot->from = align_down(at, BLOCK);
	slot->want = (uint32_t)min_u64(
		PIECE, align_up(min_u64(end_of(slot->io) - slot->from, PIECE), BLOCK));
	io_uring_prep_read(sqe, slot->fd, slot->buffer, slot->want, slot->from);
	io_uring_sqe_set_data(sqe, slot);
}

static void end_io(struct target_session *s, struct slot *slot)
{
	struct session *p = s->own;
	struct target_io *io = slot->io;

	if (slot->file)
		slot->file->users--;
	if (!slot->err && io->length_bytes != TARGET_TO_END && io->got_bytes != io->length_bytes)
		slot->err = -ENODATA;
	slot->at = FREE;
	ASSERT(p->busy > 0); /* (1) */
	p->busy--;
	target__ended(s, slot->group, io, slot->err);
}

static void begin_close(struct target_session *s, struct slot *slot)
{
	struct session *p = s->own;
	struct io_uring_sqe *sqe;

	if (slot->file || slot->fd < 0) {
		end_io(s, slot);
		return;
	}
	sqe = entry(p, slot, CLOSING);
	io_uring_prep_close(sqe, slot->fd);
	io_uring_sqe_set_data(sqe, slot);
}

/* The file of a range, opened once: false: the slot opens one of its own. */
static bool find_shared(struct session *p, struct slot *slot)
{
	uint32_t hash = 0;
	struct shared_file *f;

	for (const char *c = slot->io->path; *c; c++)
		hash = hash * 31 + (uint8_t)*c;
	f = &p->file[hash % KEPT];
	if (strcmp(f->path, slot->io->path) != 0) {
		if (f->users > 0) /* (2) */
			return false;
		if (f->fd >= 0)
			close(f->fd);
		memcpy(f->path, slot->io->path, sizeof(f->path));
		f->fd = openat(p->dir->fd, f->path, O_RDONLY | O_CLOEXEC | p->dir->read_flags);
		if (f->fd < 0) {
			f->path[0] = '\0';
			return false;
		}
	}
	ASSERT(f->fd >= 0); /* (2) */
	f->users++;
	slot->file = f;
	slot->fd = f->fd;
	return true;
}

static void begin_io(struct session *p, struct slot *slot, struct target_group *g,
		     struct target_io *io)
{
	*slot = (struct slot){ .group = g, .io = io, .fd = -1, .buffer = slot->buffer };
	io->status = 0;
	io->got_bytes = 0;
	p->busy++;
	if ((g->flags & TARGET_KEEP_OPEN) && find_shared(p, slot))
		begin_read(p, slot);
	else
		begin_open(p, slot);
}

static void landed(struct target_session *s, struct slot *slot, uint32_t n)
{
	struct target_io *io = slot->io;
	uint64_t at = io->offset_bytes + io->got_bytes, until = min_u64(slot->from + n, end_of(io));

	if (until > at)
		target__landed(io, at, slot->buffer + (at - slot->from), until - at);
	if (n < slot->want || until == end_of(io))
		begin_close(s, slot);
	else
		begin_read(s->own, slot);
}

static void step(struct target_session *s, struct slot *slot, int result)
{
	if (result < 0)
		slot->err = result;
	if (slot->at == CLOSING) {
		end_io(s, slot);
	} else if (result < 0) {
		begin_close(s, slot);
	} else if (slot->at == OPENING) {
		slot->fd = result;
		begin_read(s->own, slot);
	} else {
		landed(s, slot, (uint32_t)result);
	}
}

/* ---- groups ------------------------------------------------------------------------- */

static void fill_slots(struct session *p)
{
	for (uint32_t i = 0; i < p->slot_count && p->waiting; i++) {
		struct target_group *g = p->waiting;

		if (p->slot[i].at != FREE)
			continue;
		begin_io(p, &p->slot[i], g, &g->io[g->begun++]);
		if (g->begun < g->count)
			continue;
		p->waiting = g->next;
		if (!p->waiting)
			p->waiting_last = &p->waiting;
	}
}

static void by_calls(struct target_session *s, struct target_group *g)
{
	struct session *p = s->own;
	struct target__landing land = { p->memory + (uint64_t)p->slot_count * PIECE, 0 };
	int err = 0;

	for (uint32_t i = 0; i < g->count; i++) {
		g->io[i].status = 0;
		g->io[i].got_bytes = 0;
		err = target__dir_io(p->dir, g, &g->io[i], &land, &p->none);
		if (i + 1 == g->count && !err)
			err = target__dir_settle(p->dir, g);
		target__ended(s, g, &g->io[i], err);
	}
}

static void submit(struct target_session *s, struct target_group *g)
{
	struct session *p = s->own;

	if (g->op != TARGET_READ) {
		by_calls(s, g);
		return;
	}
	g->next = NULL;
	*p->waiting_last = g;
	p->waiting_last = &g->next;
	fill_slots(p);
}

static void poll_ring(struct target_session *s)
{
	struct session *p = s->own;
	struct io_uring_cqe *cqe;

	if (io_uring_sq_ready(&p->ring) > 0)
		(void)!io_uring_submit(&p->ring);
	while (io_uring_peek_cqe(&p->ring, &cqe) == 0) {
		struct slot *slot = io_uring_cqe_get_data(cqe);
		int result = cqe->res;

		io_uring_cqe_seen(&p->ring, cqe);
		step(s, slot, result);
	}
	fill_slots(p);
	if (io_uring_sq_ready(&p->ring) > 0)
		(void)!io_uring_submit(&p->ring);
}

static void wait_ring(struct target_session *s, uint64_t timeout_ns)
{
	struct session *p = s->own;
	struct __kernel_timespec t = { .tv_sec = (long long)(timeout_ns / 1000000000u),
				       .tv_nsec = (long long)(timeout_ns % 1000000000u) };
	struct io_uring_cqe *cqe;

	if (p->busy == 0)
		target__sleep(timeout_ns);
	else
		(void)!io_uring_wait_cqe_timeout(&p->ring, &cqe, &t);
}

const struct target__kind target__uring = {
	.scheme = "uring:",
	.what = "a local directory, io_uring and O_DIRECT",
	.open = uring_open,
	.close = target__dir_close,
	.session_open = session_open,
	.session_close = session_close,
	.submit = submit,
	.poll = poll_ring,
	.wait = wait_ring,
	.mkdir = target__dir_mkdir,
};

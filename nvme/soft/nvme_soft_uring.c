/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A queue of a file: drive: one io_uring.
 *
 *   run(): new commands -> SQEs, one io_uring_enter for all of them; completions are read from
 *          the ring's memory.  Nothing new and nothing finished: no system call.
 *
 *   read    READ_FIXED, or READV when its memory is in pieces
 *   write   the same; FUA is RWF_DSYNC
 *   flush   FSYNC with DATASYNC: all writes that have completed become durable
 *   deallocate   FALLOCATE: a hole is punched, which reads as zeros; the size stays
 *
 * Pinned memory: window i of the table of mapped IOVAs is the ring's buffer i, registered when a
 * command first names it, and unregistered after it was unmapped.  If the kernel refuses (memlock)
 * the commands do without.
 *
 *   R2 -> A2   (R2 in nvme_dma.c) a window's life has changed before we read pinned[]
 *
 * Invariants, true between any two calls:
 *
 *  (1) in_flight counts the commands given to the ring and not returned; each has one SQE
 *      or CQE there, never both, and the ring has room for a full queue.
 *  (2) pinned[i] is 0, or the life of the mapping that buffer i is
 *      [test_nvme_file:memory_mapped_anew_at_the_same_place_is_pinned_anew].
 */
#define _GNU_SOURCE
#include "nvme/soft/nvme_soft_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define RETRY_MAX 1000u /* -EAGAIN and -EINTR in a row, then it is an error */

int nvme__uring_probe(void)
{
	struct io_uring ring;
	int err = io_uring_queue_init(2, &ring, 0);

	if (err == 0)
		io_uring_queue_exit(&ring);
	return err;
}

int nvme__uring_create(struct nvme_soft_back *back, uint32_t depth, struct nvme_dma *dma,
		       void **queue)
{
	/* Completions wait until we poll: a polling core gets no interrupt. */
	unsigned flags = IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
	struct nvme_uring *q = calloc(1, sizeof(*q));
	int err;

	if (!q)
		return -ENOMEM;
	q->file = container_of(back, struct nvme_file_back, back);
	q->dma = dma;
	q->depth = depth;
	q->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	err = -errno;
	if (q->event_fd < 0)
		goto free_q;
	err = io_uring_queue_init(depth, &q->ring, flags);
	if (err)
		goto close_event_fd;
	err = io_uring_register_eventfd(&q->ring, q->event_fd);
	if (err)
		goto exit_ring;
	/* Both are wishes; a command goes without. */
	q->fixed_file = io_uring_register_files(&q->ring, &q->file->fd, 1) == 0;
	q->pins = q->file->direct &&
		  io_uring_register_buffers_sparse(&q->ring, NVME_WINDOW_COUNT) == 0;
	*queue = q;
	return 0;

exit_ring:
	io_uring_queue_exit(&q->ring);
close_event_fd:
	close(q->event_fd);
free_q:
	free(q);
	return err;
}

void nvme__uring_destroy(void *queue)
{
	struct nvme_uring *q = queue;
	struct io_uring_cqe *cqe;

	while (q->in_flight > 0) {
		if (io_uring_submit(&q->ring) < 0 || io_uring_wait_cqe(&q->ring, &cqe) < 0)
			continue; /* interrupted: commands in flight end sooner or later */
		io_uring_cqe_seen(&q->ring, cqe);
		q->in_flight--;
	}
	io_uring_queue_exit(&q->ring);
	close(q->event_fd);
	free(q);
}

/* ---- pinned memory ---------------------------------------------------------------- */

static uint32_t life_of(struct nvme_uring *q, uint32_t window)
{
	return atomic_load_explicit(&q->dma->life[window], memory_order_relaxed);
}

static int update_pin(struct nvme_uring *q, uint32_t window, void *addr, uint64_t size_bytes)
{
	struct iovec iov = { addr, size_bytes };

	q->syscall_count++;
	return io_uring_register_buffers_update_tag(&q->ring, window, &iov, NULL, 1) < 0 ? -ENOMEM
											 : 0;
}

/* Unregisters buffers that were unmapped since the last time. */
static wk_cold void unpin_stale(struct nvme_uring *q)
{
	for (uint32_t i = 0; i < NVME_WINDOW_COUNT; i++) {
		if (q->pinned[i] && q->pinned[i] != life_of(q, i)) {
			(void)!update_pin(q, i, NULL, 0); /* held on to a little longer, at worst */
			q->pinned[i] = 0;
		}
	}
}

static wk_cold bool pin(struct nvme_uring *q, uint32_t window)
{
	uint64_t size_bytes;
	void *addr = nvme__dma_window(q->dma, window, &size_bytes);

	if (!addr || update_pin(q, window, addr, size_bytes)) {
		q->pins = false;
		atomic_store_explicit(&q->file->buffers_refused, true, memory_order_relaxed);
		return false;
	}
	q->pinned[window] = life_of(q, window); /* (2) */
	return true;
}

static bool is_pinned(struct nvme_uring *q, const struct nvme_soft_cmd *cmd)
{
	if (!q->pins || cmd->seg_count != 1 || cmd->window == 0) /* 0: not the driver's memory */
		return false;
	return likely(q->pinned[cmd->window] == life_of(q, cmd->window)) || pin(q, cmd->window);
}

/* ---- commands to SQEs --------------------------------------------------------------- */

static void prepare_transfer(struct nvme_uring *q, struct io_uring_sqe *sqe,
			     const struct nvme_soft_cmd *cmd, int fd)
{
	bool pinned = is_pinned(q, cmd);
	void *addr = cmd->seg[0].iov_base;

	if (cmd->opcode == NVME_CMD_READ && pinned)
		io_uring_prep_read_fixed(sqe, fd, addr, cmd->size_bytes, cmd->offset_bytes,
					 (int)cmd->window);
	else if (cmd->opcode == NVME_CMD_READ)
		io_uring_prep_readv(sqe, fd, cmd->seg, cmd->seg_count, cmd->offset_bytes);
	else if (pinned)
		io_uring_prep_write_fixed(sqe, fd, addr, cmd->size_bytes, cmd->offset_bytes,
					  (int)cmd->window);
	else
		io_uring_prep_writev(sqe, fd, cmd->seg, cmd->seg_count, cmd->offset_bytes);
	if (cmd->fua && cmd->opcode == NVME_CMD_WRITE)
		sqe->rw_flags = RWF_DSYNC;
}

static void prepare(struct nvme_uring *q, struct nvme_soft_cmd *cmd)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&q->ring);
	int fd = q->fixed_file ? 0 : q->file->fd;

	ASSERT(sqe != NULL); /* (1) */
	if (cmd->opcode == NVME_CMD_FLUSH)
		io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
	else if (cmd->opcode == NVME_CMD_DATASET)
		io_uring_prep_fallocate(sqe, fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					(off_t)cmd->offset_bytes, (off_t)cmd->freed_bytes);
	else
		prepare_transfer(q, sqe, cmd, fd);
	if (q->fixed_file)
		sqe->flags |= IOSQE_FIXED_FILE;
	io_uring_sqe_set_data(sqe, cmd);
}

/* There is no room for a write, or not for all of it: O_DIRECT finds that out before anything is in
 * the kernel's hands.  Nothing was lost, and it may be tried again. */
static bool is_full(const struct nvme_file_back *file, const struct nvme_soft_cmd *cmd, int result)
{
	return file->direct && cmd->opcode == NVME_CMD_WRITE && (result == -ENOSPC || result >= 0);
}

static uint32_t status_of(struct nvme_file_back *file, const struct nvme_soft_cmd *cmd, int result)
{
	bool refused = cmd->opcode != NVME_CMD_READ &&
		       atomic_load_explicit(&file->sync_failed, memory_order_relaxed);

	if (unlikely(refused))
		return NVME_SC_WRITE_FAULT;
	if (likely(result >= 0 && (uint32_t)result == cmd->size_bytes))
		return NVME_SC_SUCCESS; /* commands of 0 bytes return 0 */
	if (cmd->opcode == NVME_CMD_READ)
		return NVME_SC_UNRECOVERED_READ;
	if (cmd->opcode == NVME_CMD_DATASET) /* a file system, or a disk, that cannot */
		return result == -EOPNOTSUPP ? NVME_SC_INVALID_OPCODE : NVME_SC_INTERNAL;
	if (is_full(file, cmd, result))
		return NVME_SC_CAPACITY;
	if (cmd->opcode == NVME_CMD_FLUSH || cmd->fua)
		atomic_store_explicit(&file->sync_failed, true, memory_order_relaxed);
	return result == -ENOSPC ? NVME_SC_CAPACITY : NVME_SC_WRITE_FAULT;
}

/* Returns true if `cmd` is done; otherwise it is submitted again. */
static bool finish(struct nvme_uring *q, struct nvme_soft_cmd *cmd, int result)
{
	if (unlikely((result == -EAGAIN || result == -EINTR) && cmd->scratch < RETRY_MAX)) {
		cmd->scratch++;
		prepare(q, cmd);
		return false;
	}
	ASSERT(q->in_flight > 0); /* (1) */
	q->in_flight--;
	cmd->status = (uint16_t)status_of(q->file, cmd, result);
	return true;
}

static bool kernel_has_more(const struct nvme_uring *q)
{
	uint32_t flags = IO_URING_READ_ONCE(*q->ring.sq.kflags);

	return flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW);
}

uint32_t nvme__uring_run(void *queue, struct nvme_soft_cmd **cmd, uint32_t cmd_count,
			 struct nvme_soft_cmd **done, uint32_t done_max)
{
	struct nvme_uring *q = queue;
	uint32_t unmaps = atomic_load_explicit(&q->dma->unmap_count, memory_order_acquire); /* A2 */
	struct io_uring_cqe *cqe;
	uint32_t done_count = 0, seen = 0;
	unsigned head;

	if (unlikely(unmaps != q->unmap_seen)) {
		q->unmap_seen = unmaps;
		unpin_stale(q);
	}
	for (uint32_t i = 0; i < cmd_count; i++)
		prepare(q, cmd[i]);
	q->in_flight += cmd_count;
	ASSERT(q->in_flight <= q->depth); /* (1) */
	if (io_uring_sq_ready(&q->ring) > 0) {
		q->syscall_count++;
		(void)!io_uring_submit(&q->ring); /* the rest is submitted next time */
	} else if (kernel_has_more(q)) {
		q->syscall_count++;
		(void)!io_uring_get_events(&q->ring);
	}
	io_uring_for_each_cqe(&q->ring, head, cqe)
	{
		struct nvme_soft_cmd *ended = io_uring_cqe_get_data(cqe);

		if (done_count == done_max)
			break;
		if (finish(q, ended, cqe->res))
			done[done_count++] = ended;
		seen++;
	}
	io_uring_cq_advance(&q->ring, seen);
	return done_count;
}

/* ---- sleep ----------------------------------------------------------------------------- */

int nvme__uring_wake_fd(void *queue)
{
	return ((const struct nvme_uring *)queue)->event_fd;
}

/*
 * The ring signals its eventfd at every completion, armed or not (next to a file's I/O that is
 * nothing).  So arming is: forget the old signals, then check whether one came late.
 */
bool nvme__uring_arm(void *queue)
{
	struct nvme_uring *q = queue;
	uint64_t count;

	q->syscall_count++;
	(void)!read(q->event_fd, &count, sizeof(count));
	return io_uring_cq_ready(&q->ring) == 0 && io_uring_sq_ready(&q->ring) == 0 &&
	       !kernel_has_more(q);
}

void nvme__uring_disarm(void *queue)
{
	(void)queue; /* the next arming drains the fd; until then it is not waited for */
}

void nvme__uring_stats(void *queue, struct nvme_stats *stats)
{
	stats->syscall_count = ((const struct nvme_uring *)queue)->syscall_count;
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The device, and the loop that serves it.
 *
 *   client's memory:  IOVA --> table of mapped IOVAs --> a mapping of the client's file
 *
 *   BAR 0, a memfd    | nothing: registers are messages | doorbells: the soft controller's own |
 *                     0                                 0x1000
 *
 * What it is told of must begin at a multiple of 64 MiB, as the client's table does: the table
 * here has no finer grain.
 */
#define _GNU_SOURCE
#include "test/lib/vfu_server.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DOORBELL_BYTES    (VFU_SERVER_VECTORS * 2ull * (4u << NVME_SOFT_DSTRD))
#define SPIN_TURNS        200u
#define MESSAGE_EVERY     16u
#define PAUSE_SHORTEST_NS 20000u
#define PAUSE_LONGEST_NS  500000u

/* ---- the client's memory ---------------------------------------------------------------- */

static void set_windows(struct vfu_server *s, const struct vfu_server_map *m, bool there)
{
	uint32_t index = (uint32_t)(m->iova >> NVME_WINDOW_SHIFT);

	for (uint64_t at = 0; at < m->size_bytes; at += NVME_WINDOW_BYTES, index++) {
		uint64_t here = min_u64(m->size_bytes - at, NVME_WINDOW_BYTES);
		uint64_t word = (uintptr_t)(m->addr + at) >> NVME_BLOCK_SHIFT
								     << NVME_WINDOW_LEN_BITS |
				here >> NVME_BLOCK_SHIFT;

		atomic_fetch_add(&s->dma->life[index], 1);
		atomic_store(&s->dma->window[index], there ? word : 0);
	}
}

static bool overlaps(const struct vfu_server *s, uint64_t iova, uint64_t size_bytes)
{
	for (uint32_t i = 0; i < s->map_count; i++) {
		if (iova < s->map[i].iova + s->map[i].size_bytes &&
		    s->map[i].iova < iova + size_bytes)
			return true;
	}
	return false;
}

uint32_t vfu_server_maps_max(const struct vfu_server *s)
{
	return s->options.dma_maps_max ? s->options.dma_maps_max : VFU_SERVER_MAPS_MAX;
}

int vfu_server_map(struct vfu_server *s, uint64_t iova, uint64_t size_bytes, int fd,
		   uint64_t fd_offset)
{
	struct vfu_server_map m = { iova, size_bytes, NULL };
	uint64_t end;

	if (iova % NVME_WINDOW_BYTES || size_bytes == 0 || size_bytes % NVME_BLOCK_SIZE ||
	    fd_offset % NVME_BLOCK_SIZE || add_overflows(iova, size_bytes, &end) ||
	    end > 1ull << NVME_IOVA_BITS)
		return -EINVAL;
	if (overlaps(s, iova, size_bytes))
		return -EEXIST;
	if (s->map_count == vfu_server_maps_max(s))
		return -ENOSPC;
	m.addr = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)fd_offset);
	if (m.addr == MAP_FAILED)
		return -errno;
	set_windows(s, &m, true);
	s->map[s->map_count++] = m;
	return 0;
}

static void unmap_one(struct vfu_server *s, uint32_t i)
{
	set_windows(s, &s->map[i], false);
	atomic_fetch_add(&s->dma->unmap_count, 1);
	munmap(s->map[i].addr, s->map[i].size_bytes);
	s->map[i] = s->map[--s->map_count];
}

int vfu_server_unmap(struct vfu_server *s, uint64_t iova, uint64_t size_bytes)
{
	for (uint32_t i = 0; i < s->map_count; i++) {
		if (s->map[i].iova != iova || s->map[i].size_bytes != size_bytes)
			continue;
		unmap_one(s, i);
		return 0;
	}
	return -ENOENT;
}

/* ---- the device --------------------------------------------------------------------------- */

static void fill_config(struct vfu_server *s)
{
	static const uint8_t head[] = {
		0x36, 0x1b, 0x01, 0x00, /* vendor, device */
		0x00, 0x00, 0x10, 0x00, /* command, status: there are capabilities */
		0x01, 0x02, 0x08, 0x01, /* revision, then NVMe, non-volatile memory, mass storage */
	};

	memset(s->config, 0, sizeof(s->config));
	memcpy(s->config, head, sizeof(head));
	if (s->options.not_nvme)
		s->config[11] = 0x02; /* a network card */
	s->config[0x10] = 0x04;       /* BAR 0 has 64 bits */
	s->config[0x34] = 0x40;
	s->config[0x40] = 0x11; /* MSI-X */
	s->config[0x42] = VFU_SERVER_VECTORS - 1;
}

/* As after power on; the client's memory stays mapped. */
void vfu_server_reset(struct vfu_server *s)
{
	nvme__soft_ops.write32(s->soft, NVME_REG_CC, 0);
	for (uint32_t i = 0; i < VFU_SERVER_VECTORS; i++) {
		s->queue_vector[i] = -1;
		s->cq_tail_seen[i] = 0;
	}
	fill_config(s);
}

static void drop_client(struct vfu_server *s)
{
	if (s->fd < 0)
		return;
	vfu_server_reset(s); /* before its memory goes */
	while (s->map_count > 0)
		unmap_one(s, 0);
	for (uint32_t i = 0; i < VFU_SERVER_VECTORS; i++) {
		if (s->irq_fd[i] >= 0)
			close(s->irq_fd[i]);
		s->irq_fd[i] = -1;
	}
	close(s->fd);
	s->fd = -1;
}

/* ---- interrupts ------------------------------------------------------------------------------ */

/*
 * The soft controller wakes nobody: what Create CQ says of interrupts is read here, of the commands
 * that it has just fetched, from `from` on.  (Not of those it is about to: more may come between.)
 */
static void note_vectors(struct vfu_server *s, uint32_t from)
{
	const struct nvme_soft_queue *q = &s->soft->admin;

	for (uint32_t i = from; i != q->sq_head; i = i + 1 == q->sq_size ? 0 : i + 1) {
		uint32_t qid = le32_get(q->sq[i].cdw10) & 0xffff, how = le32_get(q->sq[i].cdw11);

		if (q->sq[i].opcode != NVME_ADMIN_CREATE_CQ || qid >= VFU_SERVER_VECTORS)
			continue;
		s->queue_vector[qid] = how & 2 ? (int)(how >> 16) : -1;
		s->cq_tail_seen[qid] = 0;
	}
}

static void interrupt(struct vfu_server *s, int vector)
{
	uint64_t one = 1;

	if (vector >= 0 && vector < (int)VFU_SERVER_VECTORS && s->irq_fd[vector] >= 0)
		(void)!write(s->irq_fd[vector], &one, sizeof(one));
}

/* ---- faults -------------------------------------------------------------------------------- */

/* Whether the count has just gone past it. */
static bool due(uint64_t after, uint64_t before, uint64_t now)
{
	return after && before < after && now >= after;
}

/* A write was done, without FUA, after the last flush that was done: the drive's cache has it. */
static bool cache_is_dirty;

/* Fetches nothing, so that no flush begins, until the client has seen all that was done.  A client
 * that does not look for so long is not waited for. */
static void wait_until_seen(const struct vfu_server *s)
{
	const struct timespec pause = { .tv_nsec = NS_PER_MS };

	for (uint32_t tries = 0, unseen = 1; unseen && tries < 10000; tries++) {
		unseen = 0;
		for (uint32_t qid = 1; qid <= NVME_QPAIRS_MAX; qid++) {
			const struct nvme_soft_queue *q = s->soft->queue[qid];

			unseen += q && *q->cq_doorbell != q->cq_tail;
		}
		nanosleep(&pause, NULL);
	}
}

static void die_unflushed(const struct vfu_server *s)
{
	const uint64_t after = s->options.die_unflushed_after;

	if (!after || s->command_count < after || !cache_is_dirty)
		return;
	wait_until_seen(s);
	(void)kill(getpid(), SIGKILL);
}

static void play_faults(struct vfu_server *s, uint64_t before)
{
	const struct vfu_server_options *o = &s->options;
	uint64_t now = s->command_count;

	if (due(o->die_after, before, now))
		(void)kill(getpid(), SIGKILL);
	die_unflushed(s);
	if (due(o->hang_after, before, now)) {
		struct timespec t = { o->hang_ms / 1000, o->hang_ms % 1000 * 1000000 };

		nanosleep(&t, NULL);
	}
	if (due(o->drop_after, before, now))
		drop_client(s);
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* Whether anything was done, or is under way. */
static bool serve_queue(struct vfu_server *s, uint32_t qid, const struct nvme_soft_queue *q)
{
	uint32_t before = s->cq_tail_seen[qid], done;

	nvme__soft_ops.service(s->soft, qid);
	done = q->cq_tail >= before ? q->cq_tail - before : q->cq_tail + q->cq_size - before;
	if (done > 0) {
		s->cq_tail_seen[qid] = q->cq_tail;
		interrupt(s, qid == 0 ? 0 : s->queue_vector[qid]);
		s->command_count += qid > 0 ? done : 0;
	}
	/* Event requests stay in the admin queue for as long as the drive is healthy. */
	return done > 0 || (qid > 0 && q->owed_count > 0);
}

static bool serve_device(struct vfu_server *s)
{
	uint64_t before = s->command_count;
	uint32_t admin_head;
	bool worked;

	if (s->fd < 0 || !(s->soft->csts & NVME_CSTS_RDY))
		return false;
	admin_head = s->soft->admin.sq_head;
	worked = serve_queue(s, 0, &s->soft->admin);
	note_vectors(s, admin_head);
	for (uint32_t qid = 1; qid <= NVME_QPAIRS_MAX; qid++) {
		if (s->soft->queue[qid])
			worked |= serve_queue(s, qid, s->soft->queue[qid]);
	}
	play_faults(s, before);
	return worked;
}

static void serve_socket(struct vfu_server *s, uint32_t pause_ns)
{
	struct pollfd p = { .fd = s->fd < 0 ? s->listen_fd : s->fd, .events = POLLIN };
	struct timespec pause = { .tv_nsec = pause_ns };

	if (ppoll(&p, 1, &pause, NULL) <= 0)
		return;
	if (s->fd < 0) {
		s->fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC);
		s->message_count = 0;
		s->asked_memory = false;
		if (s->fd >= 0 && s->options.nonsense)
			(void)!write(s->fd, "220 mail.example.org ESMTP\r\n", 28);
	} else if (!vfu_server_message(s)) {
		drop_client(s);
	}
}

void vfu_server_run(struct vfu_server *s, const volatile bool *stop)
{
	uint32_t idle = 0, pause_ns = 0;

	for (uint32_t turn = 0; !*stop; turn++) {
		idle = serve_device(s) ? 0 : idle + 1;
		if (idle < SPIN_TURNS)
			pause_ns = 0;
		else
			pause_ns =
				min_u32(max_u32(pause_ns * 2, PAUSE_SHORTEST_NS), PAUSE_LONGEST_NS);
		if (pause_ns > 0 || turn % MESSAGE_EVERY == 0)
			serve_socket(s, pause_ns);
	}
}

/* ---- its life ------------------------------------------------------------------------------- */

/* Filters above the back end, of which a process has one: every write is forced, or the writes that
 * only the cache has are noted. */
static uint32_t (*cached_run)(void *queue, struct nvme_soft_cmd **cmd, uint32_t cmd_count,
			      struct nvme_soft_cmd **done, uint32_t done_max);

static uint32_t forced_run(void *queue, struct nvme_soft_cmd **cmd, uint32_t cmd_count,
			   struct nvme_soft_cmd **done, uint32_t done_max)
{
	for (uint32_t i = 0; i < cmd_count; i++)
		cmd[i]->fua |= cmd[i]->opcode == NVME_CMD_WRITE;
	return cached_run(queue, cmd, cmd_count, done, done_max);
}

static void write_through(struct nvme_soft_back *back)
{
	back->traits.volatile_cache = false;
	cached_run = back->run;
	back->run = forced_run;
}

static uint32_t noted_run(void *queue, struct nvme_soft_cmd **cmd, uint32_t cmd_count,
			  struct nvme_soft_cmd **done, uint32_t done_max)
{
	const uint32_t count = cached_run(queue, cmd, cmd_count, done, done_max);

	for (uint32_t i = 0; i < count; i++) {
		if (done[i]->opcode == NVME_CMD_FLUSH)
			cache_is_dirty = false;
		else if (done[i]->opcode == NVME_CMD_WRITE && !done[i]->fua && !done[i]->status)
			cache_is_dirty = true;
	}
	return count;
}

static void note_writes(struct nvme_soft_back *back)
{
	cached_run = back->run;
	back->run = noted_run;
}

/* The drive in equal parts, each a namespace. */
static void divide(struct vfu_server *s, struct nvme_soft_back *back)
{
	static struct nvme_soft_ns ns[VFU_SERVER_NS_MAX];
	const uint32_t count = min_u32(s->options.namespaces, VFU_SERVER_NS_MAX);
	const uint64_t each = back->traits.nblocks / max_u32(count, 1);

	for (uint32_t i = 0; i < count; i++)
		ns[i] = (struct nvme_soft_ns){
			.nsid = i + 1, .lba_shift = 12, .first_block = i * each, .size_lbas = each
		};
	if (count) {
		back->traits.ns = ns;
		back->traits.ns_count = count;
	}
}

static int make_soft(struct vfu_server *s, char *err_text, size_t err_text_size)
{
	const char *drive = s->options.drive;
	struct nvme_soft_back *back;
	struct nvme_name name;
	int err = nvme__name_parse(&name, drive, err_text, err_text_size);

	if (err)
		return err;
	if (name.kind == NVME_NAME_MEM)
		err = nvme__soft_mem_create(&back, &name, drive, err_text, err_text_size);
	else if (name.kind == NVME_NAME_FILE)
		err = nvme__soft_file_create(&back, &name, drive, true, err_text, err_text_size);
	else
		err = -EINVAL;
	if (err)
		return err;
	if (s->options.write_through)
		write_through(back);
	else if (s->options.die_unflushed_after)
		note_writes(back);
	divide(s, back);
	if (s->options.mdts)
		back->traits.mdts = s->options.mdts;
	return nvme__soft_create(&s->soft, s->dma, back);
}

static int make_bar(struct vfu_server *s)
{
	s->bar_bytes = align_up(NVME_REG_DOORBELLS + DOORBELL_BYTES, NVME_PAGE_SIZE);
	s->bar_fd = memfd_create("vfu-bar", MFD_CLOEXEC);
	if (s->bar_fd < 0 || ftruncate(s->bar_fd, (off_t)s->bar_bytes))
		return -errno;
	s->bar = mmap(NULL, s->bar_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->bar_fd, 0);
	if (s->bar == MAP_FAILED)
		return -errno;
	s->own_doorbells = s->soft->doorbells;
	s->soft->doorbells = (uint32_t *)(void *)(s->bar + NVME_REG_DOORBELLS);
	return 0;
}

static int make_socket(struct vfu_server *s)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	if (strlen(s->options.path) >= sizeof(at.sun_path))
		return -ENAMETOOLONG;
	memcpy(at.sun_path, s->options.path, strlen(s->options.path) + 1);
	(void)!unlink(s->options.path); /* of one that was killed */
	s->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s->listen_fd < 0 || bind(s->listen_fd, (const struct sockaddr *)&at, sizeof(at)) ||
	    listen(s->listen_fd, 4))
		return -errno;
	return 0;
}

int vfu_server_up(struct vfu_server *s, const struct vfu_server_options *options, char *err_text,
		  size_t err_text_size)
{
	int err;

	*s = (struct vfu_server){ .options = *options, .listen_fd = -1, .fd = -1, .bar_fd = -1 };
	for (uint32_t i = 0; i < VFU_SERVER_VECTORS; i++)
		s->irq_fd[i] = -1;
	err = nvme_dma_create(&s->dma);
	if (!err)
		err = make_soft(s, err_text, err_text_size);
	if (err)
		return err;
	err = make_bar(s);
	if (!err)
		err = make_socket(s);
	if (err) {
		nvme__err_text(err_text, err_text_size, options->path, "%s", strerror(-err));
		return err;
	}
	vfu_server_reset(s);
	return 0;
}

void vfu_server_down(struct vfu_server *s)
{
	drop_client(s);
	close(s->listen_fd);
	(void)!unlink(s->options.path);
	s->soft->doorbells = s->own_doorbells;
	nvme__soft_ops.destroy(s->soft);
	munmap(s->bar, s->bar_bytes);
	close(s->bar_fd);
	nvme_dma_destroy(s->dma);
}

/* ---- a child process
 * ------------------------------------------------------------------------------ */

static volatile bool child_stop;

static void on_term(int signal_number)
{
	(void)signal_number;
	child_stop = true;
}

static void child_main(const struct vfu_server_options *options, int ready_fd)
{
	struct vfu_server s;
	char err_text[NVME_ERR_TEXT];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGTERM, on_term);
	if (vfu_server_up(&s, options, err_text, sizeof(err_text))) {
		fprintf(stderr, "%s\n", err_text);
		_exit(2);
	}
	(void)!write(ready_fd, "r", 1);
	close(ready_fd);
	vfu_server_run(&s, &child_stop);
	vfu_server_down(&s);
	_exit(0);
}

void vfu_child_start(struct vfu_child *child, const struct vfu_server_options *options)
{
	int ready[2];
	char byte;
	ssize_t n;

	child->options = *options;
	n = pipe(ready);
	ASSERT(n == 0);
	child->pid = fork();
	ASSERT(child->pid >= 0);
	if (child->pid == 0) {
		close(ready[0]);
		child_main(options, ready[1]);
	}
	close(ready[1]);
	n = read(ready[0], &byte, 1);
	ASSERT(n == 1); /* or the server has said why not */
	close(ready[0]);
}

void vfu_child_pause(struct vfu_child *child)
{
	int status = 0;
	pid_t pid;

	(void)kill(child->pid, SIGSTOP);
	pid = waitpid(child->pid, &status, WUNTRACED);
	ASSERT(pid == child->pid && WIFSTOPPED(status));
}

void vfu_child_kill(struct vfu_child *child)
{
	(void)kill(child->pid, SIGKILL);
	(void)waitpid(child->pid, NULL, 0);
	child->pid = 0;
}

int vfu_child_stop(struct vfu_child *child)
{
	int status = 0;

	(void)kill(child->pid, SIGTERM);
	(void)waitpid(child->pid, &status, 0);
	child->pid = 0;
	return status;
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A worker: a thread that reads requests of the kernel and steps them until they are answered.
 *
 *                      begin()                        step()
 *     free ---read---> running --answer of the appliance--> running ---> ... ---> free
 *                        | -EAGAIN: no lease                  ^
 *                        v                                    |
 *                      waiting ---- something has ended ------'
 *
 * It polls while requests are in flight and for POLL_NS after that, then it sleeps on an epoll that
 * has /dev/fuse, the session's descriptor, and an eventfd for messages.
 *
 * Every request has a deadline, counted from its arrival here.  A request that the kernel
 * interrupts (the program got a signal) ends BREAK_NS later at the latest.  It is not ended at
 * once, since programs do not expect EINTR from files while the appliance answers.
 *
 * Invariants, true between two turns:
 *
 *  (1) An op is in exactly one of free, running, waiting; busy_count counts the latter two.
 *  (2) An op in `running` has a request in flight; one in `waiting` has none.
 *  (3) The landing place is not part of any op.
 *  (4) The session has a place for each op: requests_max is MOUNT_OPS.
 *  (5) Only the worker's own thread touches its session.
 *
 *   R1 -> A1: a message is complete before it is in the inbox.
 */
#include "client-lib/mount/mount.h"

#include "base/clock.h"
#include "base/num.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define POLL_NS     (50 * NS_PER_US)
#define BREAK_NS    (2 * NS_PER_S)
#define SLEEP_MS    100 /* longest sleep while a deadline may come */
#define AHEAD_FIRST 32u /* small files are read with their lookup, until it does not pay */
#define REAP_MAX    64u
#define READS_TURN  32u /* requests read in one turn, before answers are looked for */
#define LANDING     (MOUNT_IO_MAX + (8u << 10)) /* data of a write, and room for checksums */

enum sleep_on { ON_FUSE, ON_CLIENT, ON_WAKE };

/* ---- the life of an op ----------------------------------------------------------------------- */

static void op_free(struct mount_worker *w, struct mount_op *op)
{
	ASSERT(!op->in_flight && w->busy_count > 0); /* (1) (2) */
	mount_ahead_end(w, op);
	if (op->lease)
		(void)weka_release(w->client, op->lease);
	free(op->big);
	if (op->file)
		free(op->file->bytes);
	free(op->file);
	if (op->interrupted)
		w->interrupted_count--;
	if (list_linked(&op->node))
		list_del(&op->node);
	w->busy_count--;
	op->lease = NULL;
	op->big = NULL;
	list_push_front(&w->free, &op->node);
}

/* Acts on what begin() or step() returned. */
static void op_result(struct mount_worker *w, struct mount_op *op, int result)
{
	if (list_linked(&op->node))
		list_del(&op->node);
	op->again = result == -EAGAIN;
	if (result == MOUNT_WAIT) {
		ASSERT(op->in_flight); /* (2) */
		list_push_back(&w->running, &op->node);
		return;
	}
	ASSERT(!op->in_flight); /* (2) */
	if (result == -EAGAIN) {
		list_push_back(&w->waiting, &op->node);
		return;
	}
	if (result < 0 && !(op->shape->flags & MOUNT_SHAPE_MUTE))
		(void)mount_reply_error(w, op, result);
	op_free(w, op);
}

static void op_run(struct mount_worker *w, struct mount_op *op)
{
	op_result(w, op, op->stage == 0 ? op->shape->begin(w, op) : op->shape->step(w, op));
}

/* Tries again what had no lease, oldest first, until one has none again. */
static void retry_waiting(struct mount_worker *w)
{
	struct list *last = w->waiting.prev;

	while (!list_empty(&w->waiting)) {
		struct list *node = list_pop_front(&w->waiting);
		struct mount_op *op = list_entry(node, struct mount_op, node);

		op_run(w, op);
		if (op->again || node == last)
			return;
	}
}

/* ---- reading requests ------------------------------------------------------------------------ */

static struct mount_op *op_take(struct mount_worker *w)
{
	struct mount_op *op = list_entry(list_pop_front(&w->free), struct mount_op, node);

	ASSERT(!op->in_flight && !op->lease && !op->big && !op->ahead);
	op->stage = op->doing = 0;
	op->again = op->interrupted = false;
	op->file = NULL;
	op->dir = NULL;
	op->begun_ns = w->now_ns;
	op->deadline_ns = w->now_ns + w->fs->args.timeout_ns;
	w->busy_count++;
	ASSERT(w->busy_count <= MOUNT_OPS); /* (1) */
	return op;
}

/* Gives the rest of the request, which is in the landing place, to the op. */
static int take_rest(struct mount_worker *w, struct mount_op *op, char *rest, uint32_t got)
{
	const struct mount_shape *shape = mount_shape_of(mount_head(op)->opcode);
	const uint32_t rest_bytes = got - MOUNT_HEAD;

	if (shape && shape->flags & MOUNT_SHAPE_WRITE && w->landing) {
		op->lease = w->landing;
		w->landing = NULL;
		ASSERT(op->lease != w->landing); /* (3) */
		return 0;
	}
	if (got <= sizeof(op->bytes)) {
		memcpy(op->bytes + MOUNT_HEAD, rest, rest_bytes);
		return 0;
	}
	op->big = malloc(got);
	if (!op->big)
		return -ENOMEM;
	memcpy(op->big, op->bytes, MOUNT_HEAD);
	memcpy(op->big + MOUNT_HEAD, rest, rest_bytes);
	return 0;
}

static void op_begin(struct mount_worker *w, struct mount_op *op, char *rest, uint32_t got)
{
	int err = got > MOUNT_HEAD ? take_rest(w, op, rest, got) : 0;

	op->shape = mount_shape_of(mount_head(op)->opcode);
	if (!err)
		err = mount_parse(op, got);
	if (!op->shape) /* only for the text of a message */
		op->shape = mount_shape_of(FUSE_DESTROY);
	op->at = mount_node_of(w->fs, mount_head(op)->nodeid);
	if (err)
		op_result(w, op, err);
	else
		op_run(w, op);
}

/* Reads one request.  Returns 1; 0 if none is waiting; or -ENODEV after the unmount. */
static int read_one(struct mount_worker *w)
{
	struct mount_op *op = op_take(w);
	struct iovec part[2] = { { op->bytes, MOUNT_HEAD } };
	ssize_t got;

	if (!w->landing && weka_lease(w->client, LANDING, &w->landing))
		w->landing = NULL;
	part[1].iov_base = w->landing ? w->landing->data : w->spare;
	part[1].iov_len = LANDING;
	got = readv(w->fuse_fd, part, 2);
	if (got >= (ssize_t)sizeof(struct fuse_in_header)) {
		op_begin(w, op, part[1].iov_base, (uint32_t)got);
		return 1;
	}
	op_free(w, op);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	/* ENOENT: the request was interrupted before it was read. */
	return got < 0 && errno == ENOENT ? 1 : -ENODEV;
}

static int read_requests(struct mount_worker *w, uint32_t *count)
{
	int got = 1;

	for (*count = 0; *count < READS_TURN && got > 0 && !list_empty(&w->free); *count += got > 0)
		got = read_one(w);
	return got < 0 ? got : 0;
}

/* ---- answers, messages, deadlines ------------------------------------------------------------ */

static uint32_t reap(struct mount_worker *w)
{
	struct weka_req *done[REAP_MAX];
	int count = weka_reap(w->client, done, REAP_MAX);

	for (int i = 0; i < count; i++) {
		struct mount_op *op = done[i]->user;

		ASSERT(w->busy_count > 0); /* (2) */
		if (done[i] == &op->req)
			op->in_flight = false;
		else
			op->ahead->in_flight = false;
		if (!op->in_flight && !(op->ahead && op->ahead->in_flight))
			op_run(w, op);
	}
	if (count > 0)
		retry_waiting(w);
	return count > 0 ? (uint32_t)count : 0;
}

static void break_op(struct mount_worker *w, uint64_t unique)
{
	struct list *node;

	list_for_each (node, &w->running) {
		struct mount_op *op = list_entry(node, struct mount_op, node);

		if (mount_head(op)->unique != unique || op->interrupted)
			continue;
		op->interrupted = true;
		op->deadline_ns = min_u64(op->deadline_ns, w->now_ns + BREAK_NS);
		w->interrupted_count++;
		return;
	}
}

void mount_send(struct mount_worker *to, struct mount_message *message)
{
	const uint64_t one = 1;

	message->next = atomic_load_explicit(&to->inbox, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&to->inbox, &message->next, message,
						      memory_order_release, /* R1 */
						      memory_order_relaxed))
		;
	if (write(to->wake_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
		mount_say(to->fs, "eventfd: %s", strerror(errno));
}

static void receive(struct mount_worker *w)
{
	struct mount_message *m, *next;

	if (!atomic_load_explicit(&w->inbox, memory_order_relaxed))
		return;
	m = atomic_exchange_explicit(&w->inbox, NULL, memory_order_acquire); /* A1 */
	for (; m; m = next) {
		next = m->next;
		if (m->kind == MOUNT_BREAK) {
			break_op(w, m->unique);
			free(m);
			continue;
		}
		ASSERT(m->kind == MOUNT_CLOSE &&
		       pthread_equal(w->thread, pthread_self())); /* (5) */
		(void)mount_file_close(w, container_of(m, struct mount_file, message));
	}
}

/* Ends what has no time left.  The library ends most requests itself, at the same deadline. */
static void check_deadlines(struct mount_worker *w)
{
	struct list *node, *next;

	for (node = w->running.next; node != &w->running && w->interrupted_count > 0;
	     node = node->next) {
		struct mount_op *op = list_entry(node, struct mount_op, node);

		if (op->interrupted && w->now_ns >= op->deadline_ns && op->in_flight)
			(void)weka_cancel(w->client, &op->req);
		if (op->interrupted && w->now_ns >= op->deadline_ns && op->ahead &&
		    op->ahead->in_flight)
			(void)weka_cancel(w->client, &op->ahead->req);
	}
	for (node = w->waiting.next; node != &w->waiting; node = next) {
		struct mount_op *op = list_entry(node, struct mount_op, node);

		next = node->next;
		if (w->now_ns >= op->deadline_ns)
			op_result(w, op, -ETIMEDOUT);
	}
}

int mount_interrupt_begin(struct mount_worker *w, struct mount_op *op)
{
	const struct fuse_interrupt_in *in = (const void *)op->args;

	/* Any worker may have the request. */
	for (uint32_t i = 0; i < w->fs->worker_count; i++) {
		struct mount_message *m = calloc(1, sizeof(*m));

		if (!m)
			return -ENOMEM;
		m->kind = MOUNT_BREAK;
		m->unique = in->unique;
		mount_send(&w->fs->worker[i], m);
	}
	return MOUNT_DONE;
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void sleep_until_event(struct mount_worker *w)
{
	struct epoll_event event[3];
	int count, armed = weka_arm(w->client);
	uint64_t drain;

	if (armed == 0)
		return;
	count = epoll_wait(w->epoll_fd, event, 3, w->busy_count > 0 || armed < 0 ? SLEEP_MS : -1);
	for (int i = 0; i < count; i++)
		if (event[i].data.u32 == ON_WAKE && read(w->wake_fd, &drain, sizeof(drain)) < 0 &&
		    errno != EAGAIN)
			mount_say(w->fs, "eventfd: %s", strerror(errno));
	w->busy_until_ns = clock_now_ns() + POLL_NS;
}

void mount_worker_run(struct mount_worker *w)
{
	uint32_t read_count, done_count;

	for (;;) {
		w->now_ns = clock_now_ns();
		receive(w);
		if (read_requests(w, &read_count))
			break;
		done_count = reap(w);
		if (w->busy_count > 0)
			check_deadlines(w);
		if (read_count + done_count > 0)
			w->busy_until_ns = w->now_ns + POLL_NS;
		else if (w->now_ns >= w->busy_until_ns)
			sleep_until_event(w);
	}
}

/* ---- made, ended ----------------------------------------------------------------------------- */

static int watch(struct mount_worker *w, int fd, uint32_t events, enum sleep_on what)
{
	struct epoll_event event = { .events = events, .data.u32 = what };

	return epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int mount_worker_create(struct mount_worker *w)
{
	int err;

	ASSERT(w->client && w->fuse_fd >= 0);
	w->ahead_score = AHEAD_FIRST;
	list_init(&w->free);
	list_init(&w->running);
	list_init(&w->waiting);
	w->ops = calloc(MOUNT_OPS, sizeof(*w->ops));
	w->spare = malloc(LANDING);
	w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!w->ops || !w->spare)
		return -ENOMEM;
	if (w->epoll_fd < 0 || w->wake_fd < 0)
		return -errno;
	for (uint32_t i = 0; i < MOUNT_OPS; i++) {
		list_init(&w->ops[i].node);
		list_push_back(&w->free, &w->ops[i].node);
	}
	/* One of the workers is woken for a request, not all. */
	err = watch(w, w->fuse_fd, EPOLLIN | EPOLLEXCLUSIVE, ON_FUSE);
	if (!err)
		err = watch(w, weka_fd(w->client), EPOLLIN, ON_CLIENT);
	return err ? err : watch(w, w->wake_fd, EPOLLIN, ON_WAKE);
}

void mount_worker_destroy(struct mount_worker *w)
{
	struct mount_message *next;
	struct mount_message *m =
		atomic_exchange_explicit(&w->inbox, NULL, memory_order_acquire); /* A1 */

	static_assert(offsetof(struct mount_file, message) == 0, "a message is freed as its file");
	for (; m; m = next) { /* the files are closed with the session */
		next = m->next;
		free(m);
	}
	if (w->epoll_fd > 0)
		close(w->epoll_fd);
	if (w->wake_fd > 0)
		close(w->wake_fd);
	if (w->fuse_fd > 0)
		close(w->fuse_fd);
	free(w->spare);
	free(w->ops);
	w->ops = NULL;
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Waiting: polls first, then sleeps on a descriptor that never changes.
 *
 *    weka_fd() = epoll -+- each connection's descriptor (they change)
 *                       +- a timer: the next deadline, or the next try to connect
 *
 * The time to poll is four times the time of recent answers, and at least ten times the cost of
 * going to sleep; if answers take longer than spin_ns_max, only the latter.  It counts from the
 * last arrival, so that the client does not sleep in the middle of an answer.
 */
#define _GNU_SOURCE /* ppoll */
#include "client-lib/client_internal.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

int client__sleep_create(struct weka_client *c)
{
	struct epoll_event event = { .events = EPOLLIN };

	ASSERT(c->epoll < 0 && c->timer < 0);
	c->arm_ns = 2 * NS_PER_US; /* until it is measured */
	c->epoll = epoll_create1(EPOLL_CLOEXEC);
	c->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (c->epoll < 0 || c->timer < 0)
		return -errno;
	return epoll_ctl(c->epoll, EPOLL_CTL_ADD, c->timer, &event) < 0 ? -errno : 0;
}

void client__sleep_destroy(struct weka_client *c)
{
	if (c->timer >= 0)
		close(c->timer);
	if (c->epoll >= 0)
		close(c->epoll);
}

static int timer_set(struct weka_client *c, uint64_t delay_ns)
{
	struct itimerspec t = {
		.it_value = { .tv_sec = (time_t)(delay_ns / NS_PER_S),
			      .tv_nsec = (long)(delay_ns % NS_PER_S) },
	};

	ASSERT(c->timer >= 0);
	return timerfd_settime(c->timer, 0, &t, NULL) < 0 ? -errno : 0;
}

static int watch(struct weka_client *c, struct client_lane *lane)
{
	struct epoll_event event = { .events = EPOLLIN };
	const int fd = fab_conn_fd(lane->conn);

	ASSERT(lane->conn && c->epoll >= 0);
	if (lane->watched >= 0 || fd < 0)
		return 0;
	if (epoll_ctl(c->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
		return -errno;
	lane->watched = fd;
	return 0;
}

/* After a fork the child closes its copies and does not change the parent's epoll. */
void client__unwatch(struct weka_client *c, struct client_lane *lane)
{
	if (lane->watched >= 0 && !client__forked(c)) /* if it fails, close() does the same */
		(void)epoll_ctl(c->epoll, EPOLL_CTL_DEL, lane->watched, NULL);
	lane->watched = -1;
}

/* Returns the time of the next event; all requests have their deadlines by now. */
static uint64_t next_deadline(const struct weka_client *c)
{
	uint64_t next = c->next.conn ? fab_conn_deadline(c->next.conn) : UINT64_MAX;
	uint32_t i;

	ASSERT(!c->next.conn || c->at != CLIENT_UP);
	for (i = 0; i < c->lane_count && c->at == CLIENT_UP; i++)
		next = min_u64(next, client__lane_deadline(&c->lanes[i]));
	if (c->at == CLIENT_DOWN)
		next = min_u64(next, c->retry_ns);
	if (c->at == CLIENT_POOL)
		next = min_u64(next, c->try_until_ns);
	if (c->at == CLIENT_UP && !list_empty(&c->pending)) {
		uint64_t again_ns = list_entry(c->pending.next, struct client_slot, node)->again_ns;

		if (again_ns > c->now_ns) /* else the request waits for a credit */
			next = min_u64(next, again_ns);
	}
	if (c->at == CLIENT_UP && !list_empty(&c->open_late))
		next = min_u64(next, c->open_late_ns);
	for (i = 0; i < c->requests_max; i++)
		if (c->slots[i].req)
			next = min_u64(next, c->deadline_ns[i]);
	return next;
}

/* Returns 1: armed; 0: something can be received already.  A hello arms itself. */
static int lane_arm(struct weka_client *c, struct client_lane *lane, enum client_conn_at at)
{
	int err = at != CLIENT_DOWN ? watch(c, lane) : 0;

	ASSERT(!lane->armed);
	if (err)
		return err;
	if (at != CLIENT_UP && at != CLIENT_POOL)
		return 1;
	lane->armed = fab_arm(lane->conn);
	return lane->armed;
}

static void lane_disarm(struct client_lane *lane)
{
	ASSERT(!lane->armed || lane->conn);
	if (lane->armed)
		fab_disarm(lane->conn);
	lane->armed = false;
}

/* Returns 1: the descriptor will become readable; 0: there is something to reap; or -errno. */
static int arm(struct weka_client *c)
{
	uint64_t deadline_ns = next_deadline(c);
	int armed = 1, err = 0;
	uint32_t i;

	ASSERT(!c->armed);
	c->armed = true;
	if (deadline_ns != UINT64_MAX)
		err = timer_set(c, deadline_ns > c->now_ns ? deadline_ns - c->now_ns : 1);
	if (err)
		return err;
	if (c->at != CLIENT_UP)
		return lane_arm(c, &c->next, c->at);
	for (i = 0; i < c->lane_count && armed > 0; i++)
		armed = lane_arm(c, &c->lanes[i], c->lanes[i].at);
	return armed;
}

void client__disarm(struct weka_client *c)
{
	uint32_t i;

	ASSERT(c->armed);
	lane_disarm(&c->next);
	for (i = 0; i < CLIENT_LANES_MAX; i++)
		lane_disarm(&c->lanes[i]);
	c->armed = false;
	(void)!timer_set(c, 0); /* it may have expired: make it unreadable */
	ASSERT(!c->armed && !c->next.armed);
}

int weka_fd(const struct weka_client *c)
{
	int fd = client__enter(c);

	if (fd)
		return fd;
	fd = c->epoll;
	client__leave(c);
	return fd;
}

static wk_cold int cannot_watch(struct weka_client *c, int err)
{
	ASSERT(err < 0);
	return client__say(c, err, "cannot watch the connection: %s%s", strerror(-err),
			   err == -ENOSPC  ? " (raise fs.epoll.max_user_watches)"
			   : err == -EBADF ? " (the descriptor of weka_fd() was closed)"
					   : "");
}

int weka_arm(struct weka_client *c)
{
	int armed, err = client__enter(c);

	if (unlikely(err))
		return err;
	client__hurry(c); /* so that every request has its deadline */
	client__progress(c);
	ASSERT(!c->armed);
	armed = c->done_first ? 0 : arm(c);
	if (unlikely(armed < 0))
		armed = cannot_watch(c, armed);
	client__leave(c);
	return armed;
}

/* ---- waiting ----------------------------------------------------------------------- */

static wk_cold void nap(void)
{
	const struct timespec ms = { .tv_nsec = (long)NS_PER_MS };

	(void)nanosleep(&ms, NULL);
}

int client__sleep(struct weka_client *c, uint64_t until_ns)
{
	struct pollfd fd = { .fd = c->epoll, .events = POLLIN };
	uint64_t begin_ns = clock_now_ns(), left_ns;
	struct timespec timeout;
	int armed = arm(c), got;

	ASSERT(c->armed || armed != 1);
	c->arm_ns += (clock_now_ns() - begin_ns) / 4 - c->arm_ns / 4;
	if (armed == 0)
		return 0;
	if (armed < 0) { /* nothing would wake this thread: check again soon */
		nap();
		return armed;
	}
	if (begin_ns >= until_ns)
		return -ETIMEDOUT;
	left_ns = until_ns - begin_ns;
	timeout.tv_sec = (time_t)(left_ns / NS_PER_S);
	timeout.tv_nsec = (long)(left_ns % NS_PER_S);
	c->counters.sleeps++;
	got = ppoll(&fd, 1, until_ns == UINT64_MAX ? NULL : &timeout, NULL);
	if (got < 0 && errno == EINTR)
		return -EINTR;
	if (got < 0 || fd.revents & POLLNVAL) {
		got = got < 0 ? -errno : -EBADF;
		nap();
		return got;
	}
	return got == 0 ? -ETIMEDOUT : 0;
}

static inline void cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield"); /* an instruction, not memory */
#endif
}

static bool is_ready(const struct weka_client *c, struct weka_req *req)
{
	return req ? client__req(req)->state == CLIENT_REQ_DONE : c->done_first != NULL;
}

static uint64_t spin_ns(const struct weka_client *c)
{
	uint64_t least_ns = 10 * c->arm_ns;

	return 4 * c->wait_ns > c->spin_ns_max ? least_ns : max_u64(4 * c->wait_ns, least_ns);
}

static uint64_t came(const struct weka_client *c)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < c->lane_count; i++)
		if (c->lanes[i].at == CLIENT_UP)
			sum += fab_conn_came(c->lanes[i].conn);
	return sum;
}

int client__wait(struct weka_client *c, struct weka_req *req, uint64_t timeout_ns)
{
	uint64_t begin_ns = clock_now_ns(), until_ns = client__after(begin_ns, timeout_ns);
	uint64_t spin_until_ns, seen = came(c);
	int err = 0;

	ASSERT(!req || client__req(req)->state != CLIENT_REQ_IDLE);
	spin_until_ns = begin_ns + min_u64(spin_ns(c), timeout_ns);
	c->turns = 0;
	for (;;) {
		client__progress(c);
		if (is_ready(c, req))
			break;
		if (!req && c->out_count == 0)
			return -ENOENT;
		if (err)
			return err;
		if (c->now_ns < spin_until_ns) {
			cpu_relax();
			continue;
		}
		if (came(c) != seen && c->now_ns < until_ns) {
			seen = came(c);
			spin_until_ns = client__after(c->now_ns, spin_ns(c));
			continue;
		}
		client__hurry(c);
		client__progress(c);
		if (!is_ready(c, req))
			err = client__sleep(c, until_ns);
	}
	begin_ns = min_u64(begin_ns, c->now_ns);
	c->wait_ns += (c->now_ns - begin_ns) / 8 - c->wait_ns / 8;
	return 0;
}

static wk_cold int wait_failed(struct weka_client *c, int err)
{
	ASSERT(err < 0);
	switch (err) {
	case -ETIMEDOUT:
		return client__say(c, err, "weka_wait: nothing came in that time");
	case -EINTR:
		return client__say(c, err, "weka_wait: a signal came");
	case -ENOENT:
		return client__say(c, err, "weka_wait: no request is in flight");
	default:
		return cannot_watch(c, err);
	}
}

int weka_wait(struct weka_client *c, uint64_t timeout_ns)
{
	int err = client__enter(c);

	if (unlikely(err))
		return err;
	err = client__wait(c, NULL, timeout_ns);
	if (unlikely(err))
		err = wait_failed(c, err);
	client__leave(c);
	return err;
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Detects trouble with a drive: in nvme_drive_step(), on its owner's thread.
 *
 *   submit: slot.born = stamp          every eighth of the timeout, while anything is in flight:
 *   done:   slot.born = 0                the stamp advances; a command 8 stamps old has timed out
 *
 *   8 old   abort it, through the admin queue
 *   10      its queue pair is deleted and created again      (nvme_reset.c)
 *           again soon, or that fails: the controller is reset
 *
 * So an I/O costs a load and two stores, and no clock.  If nothing was in flight at two ticks, the
 * ticking ends, and the next submit starts it (watch.on).  A tick is far longer than a store takes
 * to become visible, so the second tick sees what the first missed: no fence is needed between "in
 * flight" and "on".
 *
 * It also watches: registers that read all ones or CSTS.CFS, at each tick; alarms of the host;
 * queue pairs that complain; admin commands that do not end.
 *
 *   R3 -> A3   a line is written before head includes it
 *   R4 -> A4   a line is copied out before tail frees its place
 *   R5 -> A5   what a thread has stored before it kicks (a complaint, an order that it obeyed) is
 *              seen by the owner that takes the kick
 *
 * Invariants, true between any two calls:
 *
 *  (1) stamp is 1 .. 255, and the same in each queue pair.
 *  (2) next_tick_ns is UINT64_MAX (no tick) only while `on` is false, or it has not begun.
 *  (3) A process that was stopped for an hour has aged its commands by one tick.
 */
#include "nvme/nvme_internal.h"

#include "base/clock.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TIMEOUT_NS (10 * NS_PER_S)
#define LOOK_NS    (100 * NS_PER_MS)
#define HELPLESS   (NVME_TICKS + 2u) /* stamps: the abort did not help */
#define TURNS_MAX  16                /* transitions of a reset in one step */

/* ---- lines for people ---------------------------------------------------------------- */

void nvme__tell(struct nvme_drive *drive, const char *format, ...)
{
	struct nvme_lines *l = &drive->watch.lines;
	uint32_t head = atomic_load_explicit(&l->head, memory_order_relaxed);
	char *text = l->text[head % NVME_LINES];
	va_list args;
	int at;

	if (head - atomic_load_explicit(&l->tail, memory_order_acquire) == NVME_LINES) { /* A4 */
		atomic_fetch_add_explicit(&l->lost_count, 1, memory_order_relaxed);
		return;
	}
	at = snprintf(text, NVME_LINE_BYTES, "%s: ", drive->name);
	va_start(args, format);
	(void)vsnprintf(text + at, NVME_LINE_BYTES - (size_t)at, format, args);
	va_end(args);
	atomic_store_explicit(&l->head, head + 1, memory_order_release); /* R3 */
}

bool nvme_drive_line(struct nvme_drive *ns, char *text, size_t text_size)
{
	struct nvme_drive *drive = ns->share.ctl;
	struct nvme_lines *l = &drive->watch.lines;
	uint32_t tail = atomic_load_explicit(&l->tail, memory_order_relaxed), lost;

	if (atomic_load_explicit(&l->head, memory_order_acquire) != tail) { /* A3 */
		(void)snprintf(text, text_size, "%s", l->text[tail % NVME_LINES]);
		atomic_store_explicit(&l->tail, tail + 1, memory_order_release); /* R4 */
		return true;
	}
	lost = atomic_exchange_explicit(&l->lost_count, 0, memory_order_relaxed);
	if (lost)
		(void)snprintf(text, text_size, "%s: %u more lines, lost", drive->name, lost);
	return lost > 0;
}

uint32_t nvme_drive_line_count(const struct nvme_drive *drive)
{
	return atomic_load_explicit(&drive->share.ctl->watch.lines.head, memory_order_relaxed);
}

/* ---- made and ended ---------------------------------------------------------------------- */

static int add(const struct nvme_watch *w, int fd)
{
	struct epoll_event e = { .events = EPOLLIN };

	return fd >= 0 && epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

int nvme__watch_init(struct nvme_drive *drive, uint64_t timeout_ns)
{
	struct nvme_watch *w = &drive->watch;
	int err;

	timeout_ns = min_u64(timeout_ns ? timeout_ns : TIMEOUT_NS, NVME_TIMEOUT_MAX);
	w->tick_ns = max_u64(timeout_ns / NVME_TICKS, 1);
	ASSERT(w->tick_ns <= NVME_TIMEOUT_MAX / NVME_TICKS);
	w->next_tick_ns = UINT64_MAX;
	w->stamp = 1;
	atomic_init(&w->on, true); /* until it is stepped for the first time */
	w->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (w->kick_fd < 0 || w->epoll_fd < 0)
		return -errno;
	err = add(w, w->kick_fd);
	if (!err && drive->ops->alarm_fd)
		err = add(w, drive->ops->alarm_fd(drive->ctrl));
	return err ? err : add(w, drive->ops->wake_fd(drive->ctrl, 0));
}

void nvme__watch_fini(struct nvme_drive *drive)
{
	if (drive->watch.epoll_fd >= 0)
		close(drive->watch.epoll_fd);
	if (drive->watch.kick_fd >= 0)
		close(drive->watch.kick_fd);
}

void nvme__kick(struct nvme_drive *drive)
{
	struct nvme_watch *w = &drive->watch;
	uint64_t one = 1;

	if (!atomic_load_explicit(&w->stepped, memory_order_relaxed))
		return;
	if (!atomic_exchange_explicit(&w->kicked, true, memory_order_acq_rel)) /* R5 */
		(void)!write(w->kick_fd, &one, sizeof(one));
}

/* ---- ticks --------------------------------------------------------------------------------- */

static void begin_ticking(struct nvme_watch *w, uint64_t now_ns)
{
	ASSERT(w->stamp >= 1); /* (1) */
	ASSERT(w->stamp <= 255);
	w->cooling = false;
	if (w->tick_ns == 0)
		return; /* never: `on` stays true, and no thread kicks */
	atomic_store_explicit(&w->on, true, memory_order_relaxed);
	if (w->next_tick_ns == UINT64_MAX)
		w->next_tick_ns = now_ns + w->tick_ns;
	ASSERT(w->next_tick_ns != UINT64_MAX); /* (2) */
}

static void abort_command(struct nvme_drive *drive, uint32_t qid, uint32_t cid, uint64_t now_ns)
{
	struct nvme_watch *w = &drive->watch;

	ASSERT(qid >= 1 && drive->qpair[qid]);
	if (w->abort.state == NVME_ADMIN_FLYING)
		return; /* one abort at a time; later its queue pair is created again */
	w->abort = (struct nvme_admin_cmd){ .sqe = nvme__sqe_abort(qid, cid),
					    .deadline_ns = now_ns + drive->timeout_ns };
	if (nvme__admin_submit(drive, &w->abort) == 0)
		nvme__tell(drive, "command %u of queue %u takes too long: aborted", cid, qid);
}

/* The age in stamps of the oldest command of `qp`, or 0; *count: how many are in flight. */
static uint32_t oldest_of(const struct nvme_drive *drive, struct nvme_qpair *qp, uint32_t *cid,
			  uint32_t *count, uint32_t *late)
{
	uint32_t oldest = 0;

	ASSERT(drive->watch.stamp >= 1); /* (1) */
	ASSERT(drive->watch.stamp <= 255);
	for (uint32_t i = 0; i + 1 < qp->rings.depth; i++) {
		uint32_t born = atomic_load_explicit(&qp->slot[i].born, memory_order_relaxed);
		uint32_t age = (drive->watch.stamp + 255 - born) % 255;

		if (born == 0)
			continue;
		++*count;
		*late += age == NVME_TICKS;
		if (age > oldest) {
			oldest = age;
			*cid = atomic_load_explicit(&qp->slot[i].cid, memory_order_relaxed);
		}
	}
	return oldest;
}

static void look_at_commands(struct nvme_drive *drive, uint64_t now_ns, uint32_t *in_flight)
{
	struct nvme_watch *w = &drive->watch;
	uint32_t cid = 0, late = 0;

	ASSERT(drive->reset.life == NVME_LIVE);
	for (uint32_t q = 1; q <= NVME_QPAIRS_MAX; q++) {
		struct nvme_qpair *qp = drive->qpair[q];
		uint32_t age =
			qp && !qp->leaving ? oldest_of(drive, qp, &cid, in_flight, &late) : 0;

		if (age >= HELPLESS && drive->reset.life == NVME_LIVE) {
			bool again = w->restarted_ns &&
				     now_ns - w->restarted_ns < 2 * NVME_TICKS * w->tick_ns;

			w->restarted_ns = max_u64(now_ns, 1);
			nvme__trouble(drive, NVME_CAUSE_TIMEOUT, again ? 0 : q, now_ns);
		} else if (age >= NVME_TICKS && drive->reset.life == NVME_LIVE) {
			abort_command(drive, q, cid, now_ns);
		}
	}
	drive->counts.timeout_count += late;
}

/* Its answer may come later: it is polled until then. */
static void look_at_csts(struct nvme_drive *drive, uint64_t now_ns)
{
	uint32_t csts;

	if (!drive->watch.csts_wanted || nvme__ask_csts(drive, &csts))
		return;
	drive->watch.csts_wanted = false;
	if (csts == NVME_CSTS_GONE)
		nvme__trouble(drive, NVME_CAUSE_GONE, 0, now_ns);
	else if (csts & NVME_CSTS_CFS)
		nvme__trouble(drive, NVME_CAUSE_FATAL, 0, now_ns);
}

static void tick(struct nvme_drive *drive, uint64_t now_ns)
{
	struct nvme_watch *w = &drive->watch;
	uint32_t in_flight = 0;

	w->next_tick_ns = now_ns + w->tick_ns;
	ASSERT(w->next_tick_ns > now_ns); /* (3): however long ago the last one was */
	w->csts_wanted = true;
	look_at_csts(drive, now_ns);
	if (drive->reset.life != NVME_LIVE)
		return;
	look_at_commands(drive, now_ns, &in_flight);
	w->stamp = w->stamp % 255 + 1;
	for (uint32_t q = 1; q <= NVME_QPAIRS_MAX; q++) /* (1) */
		if (drive->qpair[q])
			atomic_store_explicit(&drive->qpair[q]->stamp, (uint8_t)w->stamp,
					      memory_order_relaxed);
	if (in_flight) {
		begin_ticking(w, now_ns);
		return;
	}
	atomic_store_explicit(&w->on, false, memory_order_relaxed);
	if (w->cooling)
		w->next_tick_ns = UINT64_MAX;
	ASSERT(!atomic_load_explicit(&w->on, memory_order_relaxed)); /* (2) */
	w->cooling = !w->cooling;
}

/* ---- the rest that may be wrong -------------------------------------------------------------- */

static void complaints(struct nvme_drive *drive, uint64_t now_ns)
{
	for (uint32_t q = 1; q <= NVME_QPAIRS_MAX; q++) {
		struct nvme_qpair *qp = drive->qpair[q];
		uint32_t what =
			qp ? atomic_exchange_explicit(&qp->complaint, 0, memory_order_relaxed) : 0;

		if (!what)
			continue;
		ASSERT(what >> 16 == NVME_COMPLAINT_ID || what >> 16 == NVME_COMPLAINT_QUEUE);
		nvme__tell(drive, "queue %u completes command %u, which %s", q, what & 0xffff,
			   what >> 16 == NVME_COMPLAINT_QUEUE ? "it says is of another queue"
							      : "is not there");
		nvme__trouble(drive, NVME_CAUSE_PROTOCOL, 0, now_ns);
	}
}

static void kicked(struct nvme_drive *drive, uint64_t now_ns)
{
	struct nvme_watch *w = &drive->watch;
	uint64_t count;

	if (!atomic_exchange_explicit(&w->kicked, false, memory_order_acq_rel)) /* A5 */
		return;
	(void)!read(w->kick_fd, &count, sizeof(count));
	begin_ticking(w, now_ns);
	complaints(drive, now_ns);
}

void nvme__watch_alarms(struct nvme_drive *drive, uint64_t now_ns)
{
	uint32_t bits = drive->ops->alarm ? drive->ops->alarm(drive->ctrl) : 0;
	bool live = drive->reset.life == NVME_LIVE;

	ASSERT(nvme__helm_taken(drive));
	if (bits & NVME_ALARM_REQUEST) /* whatever else there is: it goes back */
		nvme__trouble(drive, NVME_CAUSE_REQUEST, 0, now_ns);
	else if (bits & NVME_ALARM_GONE && (live || drive->reset.life == NVME_PROVING ||
					    drive->reset.cause != NVME_CAUSE_GONE))
		nvme__trouble(drive, NVME_CAUSE_GONE, 0, now_ns);
	else if (bits & NVME_ALARM_ERROR && live)
		nvme__trouble(drive, NVME_CAUSE_BUS, 0, now_ns);
}

static void look_at_admin(struct nvme_drive *drive, uint64_t now_ns)
{
	struct nvme_admin_cmd *abort = &drive->watch.abort, *overdue;

	ASSERT(drive->reset.life == NVME_LIVE);
	(void)nvme__admin_poll(drive);
	if (abort->state == NVME_ADMIN_DONE) {
		abort->state = NVME_ADMIN_NEW;
		drive->counts.abort_count += abort->err == 0 && !(abort->result & 1);
	}
	overdue = nvme__admin_overdue(drive, now_ns);
	if (!overdue && !drive->failed)
		return;
	if (overdue)
		nvme__admin_lose(drive, overdue);
	nvme__trouble(drive, NVME_CAUSE_ADMIN, 0, now_ns);
}

static void look_at_events(struct nvme_drive *drive, uint64_t now_ns)
{
	nvme__events_step(drive, now_ns);
	if (drive->events.lost_namespace)
		nvme__trouble(drive, NVME_CAUSE_NAMESPACE, 0, now_ns);
}

void nvme__watch_look(struct nvme_drive *drive, uint64_t now_ns)
{
	struct nvme_watch *w = &drive->watch;

	DASSERT(nvme__helm_taken(drive));
	if (now_ns >= w->next_look_ns || w->abort.state == NVME_ADMIN_FLYING) {
		w->next_look_ns = now_ns + LOOK_NS;
		nvme__watch_alarms(drive, now_ns);
		if (drive->reset.life == NVME_LIVE)
			look_at_csts(drive, now_ns);
		if (drive->reset.life == NVME_LIVE)
			look_at_admin(drive, now_ns);
		if (drive->reset.life == NVME_LIVE)
			look_at_events(drive, now_ns);
	}
	if (drive->reset.life == NVME_LIVE && now_ns >= w->next_tick_ns)
		tick(drive, now_ns);
}

void nvme__watch_restart(struct nvme_drive *drive, uint64_t now_ns)
{
	struct nvme_watch *w = &drive->watch;

	w->next_look_ns = now_ns;
	w->next_tick_ns = UINT64_MAX;
	w->csts_wanted = false;
	begin_ticking(w, now_ns);
}

/* ---- the owner's calls ---------------------------------------------------------------------- */

static wk_cold void first_step(struct nvme_drive *drive, uint64_t now_ns)
{
	atomic_store_explicit(&drive->watch.stepped, true, memory_order_relaxed);
	nvme__watch_restart(drive, now_ns);
	complaints(drive, now_ns); /* from before the first listener */
}

/* Counts again what counters say, in variants that look for our own mistakes. */
static void self_check(struct nvme_drive *drive, bool moved)
{
#ifdef WK_DEBUG
	if (drive->watch.self_check++ % NVME_CHECK_CALLS == 0 || moved)
		nvme__drive_check(drive);
#else
	(void)drive, (void)moved;
#endif
}

/* At the helm. */
static bool step(struct nvme_drive *drive, uint64_t now_ns)
{
	struct nvme_watch *w = &drive->watch;
	bool progress = false;

	w->owner = nvme__me();

	if (unlikely(!atomic_load_explicit(&w->stepped, memory_order_relaxed)))
		first_step(drive, now_ns);
	if (unlikely(atomic_load_explicit(&w->kicked, memory_order_relaxed)))
		kicked(drive, now_ns);
	if (likely(drive->reset.life == NVME_LIVE)) {
		nvme__watch_look(drive, now_ns);
		if (likely(drive->reset.life == NVME_LIVE))
			return false;
	} else if (now_ns >= w->next_look_ns) {
		w->next_look_ns = now_ns + LOOK_NS;
		nvme__watch_alarms(drive, now_ns);
	}
	if (unlikely(drive->reset.life == NVME_DEAD)) /* the host may still want it back */
		return false;
	nvme__away_look(drive, now_ns);
	(void)nvme__admin_poll(drive);
	for (uint32_t i = 0; i < TURNS_MAX && nvme__reset_turn(drive, now_ns); i++)
		progress = true;
	return progress;
}

bool nvme_drive_step(struct nvme_drive *ns, uint64_t now_ns)
{
	struct nvme_drive *drive = ns->share.ctl;
	bool progress;

	if (unlikely(!nvme__helm_try(drive)))
		return true; /* a thread creates or ends a queue pair, and leaves in a moment */
	progress = step(drive, now_ns);
	self_check(drive, progress);
	nvme__helm_leave(drive);
	return progress;
}

int nvme_drive_fd(const struct nvme_drive *drive)
{
	return drive->share.fd >= 0 ? drive->share.fd : drive->watch.epoll_fd;
}

static bool arm(struct nvme_drive *drive)
{
	const struct nvme_rings *r = &drive->admin.rings;
	struct nvme_watch *w = &drive->watch;

	if (drive->reset.life != NVME_DEAD) {
		if (!drive->ops->arm(drive->ctrl, 0))
			return false;
		/* Completions that arrive before arming cause no wake-up. */
		if (!drive->failed && (r->cq[r->cq_head].status.raw & 1) == r->phase) {
			w->next_look_ns = 0;
			return false;
		}
	}
	return !atomic_load_explicit(&w->kicked, memory_order_acquire); /* A5 */
}

bool nvme_drive_arm(struct nvme_drive *ns)
{
	struct nvme_drive *drive = ns->share.ctl;
	bool armed;

	if (!nvme__helm_try(drive))
		return false;
	armed = arm(drive);
	nvme__helm_leave(drive);
	return armed;
}

void nvme_drive_disarm(struct nvme_drive *ns)
{
	struct nvme_drive *drive = ns->share.ctl;
	struct nvme_watch *w = &drive->watch;
	struct epoll_event e;
	uint64_t count;

	nvme__helm_take(drive);
	/* Before the controller's own descriptor is drained: one call instead of one for each. */
	if (epoll_wait(w->epoll_fd, &e, 1, 0) == 1) {
		w->next_look_ns = 0;
		/* A kick that was heard before it was written: w->kicked says what there is. */
		(void)!read(w->kick_fd, &count, sizeof(count));
	}
	if (drive->reset.life != NVME_DEAD)
		drive->ops->disarm(drive->ctrl, 0);
	nvme__helm_leave(drive);
}

static uint64_t deadline_ns(const struct nvme_drive *drive)
{
	const struct nvme_reset *r = &drive->reset;
	uint64_t at_ns = drive->watch.next_tick_ns, admin_ns;

	switch (r->life) {
	case NVME_DEAD:
		return UINT64_MAX;
	case NVME_LIVE:
		admin_ns = nvme__admin_deadline_ns(drive);
		if (admin_ns == UINT64_MAX && !drive->watch.csts_wanted)
			return at_ns;
		return min_u64(at_ns, drive->watch.next_look_ns);
	case NVME_DISABLING:
	case NVME_RESETTING:
	case NVME_RESTING:
	case NVME_RISING:
	case NVME_PROVING:
		return min_u64(r->look_ns, nvme__away_ns(drive));
	case NVME_STOPPING: /* woken by threads that obey */
	case NVME_RETURNING:
		return r->forced ? r->deadline_ns : nvme__away_ns(drive);
	case NVME_DELETING:
	case NVME_CREATING:
		return min_u64(r->cmd.deadline_ns, drive->watch.next_look_ns);
	}
	UNREACHABLE();
}

uint64_t nvme_drive_deadline(struct nvme_drive *ns)
{
	struct nvme_drive *drive = ns->share.ctl;
	uint64_t at_ns;

	nvme__helm_take(drive);
	at_ns = deadline_ns(drive);
	nvme__helm_leave(drive);
	return at_ns;
}

static enum nvme_health health(const struct nvme_drive *drive, const struct nvme_drive *ns)
{
	if (drive->reset.life == NVME_DEAD)
		return NVME_HEALTH_DEAD;
	if (drive->reset.life != NVME_LIVE)
		return atomic_load_explicit(&drive->reset.away, memory_order_relaxed)
			       ? NVME_HEALTH_AWAY
			       : NVME_HEALTH_RESETTING;
	return ns->read_only ? NVME_HEALTH_READ_ONLY : NVME_HEALTH_GOOD;
}

enum nvme_health nvme_drive_health(struct nvme_drive *ns)
{
	struct nvme_drive *drive = ns->share.ctl;
	enum nvme_health now;

	nvme__helm_take(drive);
	now = health(drive, ns);
	nvme__helm_leave(drive);
	return now;
}

void nvme_drive_counts(struct nvme_drive *ns, struct nvme_drive_counts *counts)
{
	struct nvme_drive *drive = ns->share.ctl;

	nvme__helm_take(drive);
	*counts = drive->counts;
	nvme__helm_leave(drive);
}

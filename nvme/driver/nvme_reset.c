/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Repairs a drive after an error.  Its owner's thread takes these steps in nvme_drive_step(), and
 * never waits; the queue pairs' threads obey in nvme_poll().
 *
 *                live
 *                 | trouble: all queue pairs, or the one that hangs, are told to stop
 *                 v
 *             stopping      each thread stops touching its queues, and reports that
 *              |     |
 *   one queue  |     | the controller
 *              v     v
 *       deleting    disabling     CC.EN = 0, RDY falls?
 *         |  \\         |   \\ no
 *         |   \\no      |    v
 *         |    +->*    |   resetting    function-level reset; does it stop?
 *         |            |    |     \\ no
 *         |            |    |      v
 *         |            |    |    bus mastering off, or given back; else quarantine --> dead
 *         v            v    v
 *             returning     only now I/Os come back, once each
 *              |     |
 *              |     v
 *              |   rising       nvme__up_step(): enabled, and still the same drive?
 *              |     |             |no, or it is another one: disabled, a pause, and again
 *              |  proving      nvme_proof.c: its content is unchanged; no: the same
 *              v     v
 *             creating
 *                 |
 *                 v
 *                live       waiting I/Os may be submitted again
 *
 * If the host wants the device back, or the drive is closed, the steps are the same, but end dead.
 *
 *   R2 -> A2   (R2 in nvme_qpair.c) a thread's last access to its queues comes before its report
 *              that it obeyed
 *
 * Invariants, true between any two calls:
 *
 *  (1) The controller is stopped (disabled, reset, cut off) only when every queue pair has
 *      obeyed STOP: none of them rings a doorbell, or runs a controller of this process
 *      [test_nvme_reset:thread_that_sleeps_is_woken_to_obey].
 *  (2) RETURN and DEAD are ordered only when the controller can write no more, or when nothing
 *      stops it: then r->quarantine is set, and the memory that it knows is never freed.
 *  (3) Rings are re-initialised by their thread (RETURN), and given to the controller by this one,
 *      after the thread has obeyed.
 *  (4) Every wait has a deadline, after which the next, harder means is used; the hardest always
 *      ends [test_nvme_reset:what_nothing_stops_is_quarantined_and_said_to_be].
 */
#include "nvme/nvme_internal.h"

#include "base/clock.h"
#include "base/words.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define LOOK_NS     NS_PER_MS         /* between two reads of a register */
#define RESET_NS    (30 * NS_PER_S)   /* for a slow reset: a server comes back */
#define REQUEST_NS  (300 * NS_PER_MS) /* the host waits for the device: no longer than this */
#define FORCED_NS   (200 * NS_PER_MS) /* for threads that may poll no more, when we close */
#define CLOSING_NS  (NS_PER_S)        /* ... and for a reset then: nvme_close() waits for it */
#define QUICK       2u /* attempts to bring it up, one after the other; then with pauses */
#define REST_MIN_NS (100 * NS_PER_MS)
#define REST_MAX_NS (4 * NS_PER_S)
#define LOOK_MAX_NS (NS_PER_S / 2)
#define TOLD        3u  /* attempts reported one by one; then each power of two */
#define RECENT_SPAN 20u /* in timeouts: NVME_RESET_RECENT resets in this time are too many */

static const char *const cause_text[NVME_CAUSES] = {
	[NVME_CAUSE_TIMEOUT] = "commands do not end",
	[NVME_CAUSE_ADMIN] = "admin commands do not end, or nobody asked for them",
	[NVME_CAUSE_FATAL] = "the controller says that its state is fatal (CSTS.CFS)",
	[NVME_CAUSE_PROTOCOL] = "completions that nobody asked for",
	[NVME_CAUSE_GONE] = "it is gone (its registers read all ones)",
	[NVME_CAUSE_BUS] = "the bus reports an error of the device",
	[NVME_CAUSE_NAMESPACE] = "its namespace is gone, or is another one",
	[NVME_CAUSE_REQUEST] = "the host asks for the device back",
	[NVME_CAUSE_CLOSING] = "it does not give its queues back",
};

static void enter(struct nvme_drive *drive, enum nvme_life life, uint64_t now_ns, uint64_t limit_ns)
{
	ASSERT(life != NVME_LIVE && life != NVME_DEAD); /* these wait for nothing */
	drive->reset.life = life;
	drive->reset.checking = false;
	drive->reset.since_ns = now_ns;
	drive->reset.look_ns = now_ns;
	drive->reset.deadline_ns = now_ns + limit_ns;
}

/* Time until the next check, which grows with the time that has passed. */
static uint64_t pause_ns(const struct nvme_reset *r, uint64_t now_ns)
{
	return min_u64(max_u64((now_ns - r->since_ns) / 16, LOOK_NS / 10), LOOK_MAX_NS);
}

/* Before the next attempt. */
static uint64_t rest_ns(const struct nvme_reset *r)
{
	uint32_t doublings = min_u32(r->attempts, 16) - min_u32(r->attempts, QUICK);

	return r->attempts < QUICK ? 0 : min_u64(REST_MIN_NS << doublings, REST_MAX_NS);
}

/* Returns true if the reset waits for the controller, whatever reset() returns. */
static bool is_patient(const struct nvme_drive *drive)
{
	return drive->ops->left && !drive->reset.dead && !drive->reset.forced;
}

static bool has_left(const struct nvme_drive *drive)
{
	return drive->ops->left && drive->ops->left(drive->ctrl);
}

/* ---- orders -------------------------------------------------------------------------- */

static uint32_t word(const struct nvme_reset *r, enum nvme_order what)
{
	return r->round << NVME_ORDER_BITS | what;
}

/* The next queue pair at or after `qid` that this reset is about; 0: none. */
static uint32_t next_qid(const struct nvme_drive *drive, uint32_t qid)
{
	const struct nvme_reset *r = &drive->reset;
	ASSERT(qid > 0);

	for (; qid <= NVME_QPAIRS_MAX; qid++) {
		if (drive->qpair[qid] && !drive->qpair[qid]->ended &&
		    (r->qid == 0 || r->qid == qid))
			return qid;
	}
	return 0;
}

static void order(struct nvme_drive *drive, enum nvme_order what)
{
	ASSERT(what != NVME_ORDER_RETURN || drive->reset.stopped); /* (2) */
	ASSERT(what != NVME_ORDER_RUN || drive->reset.life == NVME_CREATING);
	for (uint32_t q = next_qid(drive, 1); q; q = next_qid(drive, q + 1))
		nvme__qpair_order(drive->qpair[q], word(&drive->reset, what));
}

/* ---- away --------------------------------------------------------------------------------- */

uint64_t nvme__away_ns(const struct nvme_drive *drive)
{
	const struct nvme_reset *r = &drive->reset;

	if (atomic_load_explicit(&r->away, memory_order_relaxed) || r->qid || r->trouble_ns == 0 ||
	    drive->watch.tick_ns == 0)
		return UINT64_MAX;
	return r->trouble_ns + NVME_TICKS * drive->watch.tick_ns;
}

/* Threads that sleep over waiting I/Os are woken, by an order that they have obeyed. */
void nvme__away_look(struct nvme_drive *drive, uint64_t now_ns)
{
	struct nvme_reset *r = &drive->reset;

	ASSERT(nvme__helm_taken(drive));
	if (now_ns < nvme__away_ns(drive) || r->dead)
		return;
	ASSERT(r->qid == 0 && r->life != NVME_LIVE);
	atomic_store_explicit(&r->away, true, memory_order_relaxed);
	nvme__tell(drive, "away: I/Os to it fail until it comes back; it is tried again and again");
	for (uint32_t q = 1; q <= NVME_QPAIRS_MAX; q++) {
		struct nvme_qpair *qp = drive->qpair[q];

		if (qp && !qp->ended)
			nvme__qpair_order(qp,
					  atomic_load_explicit(&qp->order, memory_order_relaxed));
	}
}

static bool all_obeyed(const struct nvme_drive *drive, enum nvme_order what)
{
	ASSERT(what == NVME_ORDER_STOP || what == NVME_ORDER_RETURN);
	for (uint32_t q = next_qid(drive, 1); q; q = next_qid(drive, q + 1)) {
		uint32_t obeyed = atomic_load_explicit(&drive->qpair[q]->obeyed,
						       memory_order_acquire); /* A2 */

		if (obeyed != word(&drive->reset, what))
			return false;
	}
	return true;
}

/* (1): every queue pair has stopped, and perhaps given its I/Os back since. */
static bool none_touches(const struct nvme_drive *drive)
{
	return all_obeyed(drive, NVME_ORDER_STOP) || all_obeyed(drive, NVME_ORDER_RETURN) ||
	       drive->reset.forced;
}

/* ---- the ends ------------------------------------------------------------------------- */

static void release(struct nvme_drive *drive)
{
	if (drive->reset.released || !drive->ops->release)
		return;
	ASSERT(drive->reset.dead); /* nobody can bring it back */
	drive->reset.released = true;
	drive->ops->release(drive->ctrl);
}

static void bury(struct nvme_drive *drive)
{
	struct nvme_reset *r = &drive->reset;

	ASSERT(r->dead && r->qid == 0);
	ASSERT(r->stopped || r->quarantine); /* (2) */
	if (r->cause == NVME_CAUSE_GONE)     /* the host waits until the device is released */
		release(drive);
	order(drive, NVME_ORDER_DEAD);
	r->life = NVME_DEAD;
	nvme__tell(drive, "given up%s%s", r->cause == NVME_CAUSE_REQUEST ? ": handed back" : "",
		   r->quarantine ? "; nothing stops it from writing to memory that it was told of: "
				   "that memory is quarantined"
				 : "");
}

/* The controller reaches no memory any more, or nothing can be done about it. */
static void stopped(struct nvme_drive *drive, uint64_t now_ns)
{
	struct nvme_reset *r = &drive->reset;

	ASSERT(r->life != NVME_LIVE);
	r->stopped = !r->quarantine;
	if (r->cause == NVME_CAUSE_REQUEST)
		release(drive);
	if (r->stopped) {
		r->stopped_epoch = drive->counts.reset_count;
		nvme__admin_restart(drive);
		drive->failed = false;
	}
	if (r->dead) {
		bury(drive);
		return;
	}
	order(drive, NVME_ORDER_RETURN);
	enter(drive, NVME_RETURNING, now_ns, 0);
}

/* Neither disabled nor reset: cut it off. */
static void last_resort(struct nvme_drive *drive, uint64_t now_ns)
{
	const struct nvme_ctrl_ops *ops = drive->ops;
	struct nvme_reset *r = &drive->reset;
	bool cut_off = ops->bus_master && ops->bus_master(drive->ctrl, false) == 0;

	ASSERT(r->qid == 0 && none_touches(drive)); /* (1) */
	r->dead = true;
	if (!cut_off) {
		cut_off = has_left(drive);
		release(drive);
		cut_off |= r->released && ops->release_stops;
	}
	r->quarantine = !cut_off;
	nvme__tell(drive, "it can be neither disabled nor reset%s",
		   cut_off ? ": cut off from memory" : "");
	stopped(drive, now_ns);
}

static void stop_controller(struct nvme_drive *drive, uint64_t now_ns)
{
	struct nvme_reset *r = &drive->reset;

	ASSERT(r->life != NVME_LIVE);
	ASSERT(r->life != NVME_DEAD);
	ASSERT(r->qid == 0 && none_touches(drive)); /* (1) */
	if (r->cause == NVME_CAUSE_GONE) {
		enter(drive, NVME_RESETTING, now_ns, r->forced ? CLOSING_NS : RESET_NS);
		return;
	}
	drive->cc &= ~NVME_CC_EN;
	drive->ops->write32(drive->ctrl, NVME_REG_CC, drive->cc);
	enter(drive, NVME_DISABLING, now_ns,
	      r->cause == NVME_CAUSE_REQUEST ? REQUEST_NS : drive->timeout_ns);
}

/* ---- trouble ---------------------------------------------------------------------------- */

/* Begun now, and so often lately that it makes no sense any more? */
static bool too_often(struct nvme_drive *drive, uint64_t now_ns)
{
	struct nvme_reset *r = &drive->reset;
	uint64_t span_ns = RECENT_SPAN * NVME_TICKS * drive->watch.tick_ns;
	bool yes = r->recent_ns[0] != 0 && now_ns - r->recent_ns[0] < span_ns;

	memmove(r->recent_ns, r->recent_ns + 1, sizeof(r->recent_ns) - sizeof(r->recent_ns[0]));
	r->recent_ns[NVME_RESET_RECENT - 1] = max_u64(now_ns, 1);
	return yes;
}

void nvme__trouble(struct nvme_drive *drive, enum nvme_cause cause, uint32_t qid, uint64_t now_ns)
{
	struct nvme_reset *r = &drive->reset;
	const char *what = qid ? "its queue pair is made anew" : "reset", *why = cause_text[cause];

	ASSERT(nvme__helm_taken(drive));
	ASSERT(cause < NVME_CAUSES && qid <= NVME_QPAIRS_MAX);
	ASSERT(qid == 0 || r->life == NVME_LIVE); /* else the controller is being stopped */
	if (r->life == NVME_DEAD) {
		if (cause == NVME_CAUSE_REQUEST)
			release(drive);
		return;
	}
	if (r->cmd.state == NVME_ADMIN_FLYING)
		nvme__admin_lose(drive, &r->cmd);
	nvme__proof_end(drive);
	r->cause = cause;
	r->qid = qid;
	r->round++;
	if (r->life == NVME_LIVE)
		r->attempts = 0;
	if (r->trouble_ns == 0)
		r->trouble_ns = max_u64(now_ns, 1);
	r->stopped = false;
	r->vacant = false;
	r->dead |= cause == NVME_CAUSE_REQUEST || cause == NVME_CAUSE_CLOSING;
	r->forced |= cause == NVME_CAUSE_CLOSING;
	if (qid) {
		drive->counts.queue_restart_count++;
	} else {
		drive->counts.reset_count++;
		if (!r->dead && too_often(drive, now_ns)) {
			r->attempts = 16; /* and so the longest pause */
			what = "again and again: reset, after a pause";
		}
	}
	if (cause == NVME_CAUSE_GONE && drive->ops->why)
		why = drive->ops->why(drive->ctrl);
	nvme__tell(drive, "%s: %s", why, r->dead && !qid ? "it is stopped" : what);
	order(drive, NVME_ORDER_STOP);
	enter(drive, NVME_STOPPING, now_ns, FORCED_NS);
}

/* ---- the steps; each returns false while it waits -------------------------------------- */

/* (1) */
static bool stopping(struct nvme_drive *drive, uint64_t now_ns)
{
	struct nvme_reset *r = &drive->reset;

	if (!all_obeyed(drive, NVME_ORDER_STOP) && !(r->forced && now_ns >= r->deadline_ns))
		return false;
	if (r->qid == 0) {
		stop_controller(drive, now_ns);
		return true;
	}
	r->cmd = (struct nvme_admin_cmd){ .state = NVME_ADMIN_NEW };
	r->next_sq = true;
	enter(drive, NVME_DELETING, now_ns, drive->timeout_ns);
	return true;
}

/* r->cmd: 1: it flies; 0: it is done, and well, or was never sent; else -errno. */
static int command_state(struct nvme_drive *drive, uint64_t now_ns)
{
	struct nvme_admin_cmd *cmd = &drive->reset.cmd;

	ASSERT(cmd->state != NVME_ADMIN_LOST);
	if (cmd->state == NVME_ADMIN_FLYING && now_ns >= cmd->deadline_ns)
		return -ETIMEDOUT;
	if (drive->failed)
		return -EIO;
	return cmd->state == NVME_ADMIN_FLYING ? 1 : cmd->err;
}

static int send(struct nvme_drive *drive, const struct nvme_sqe *sqe, uint64_t now_ns)
{
	struct nvme_admin_cmd *cmd = &drive->reset.cmd;

	ASSERT(cmd->state != NVME_ADMIN_FLYING);
	*cmd = (struct nvme_admin_cmd){ .sqe = *sqe, .deadline_ns = now_ns + drive->timeout_ns };
	return nvme__admin_submit(drive, cmd);
}

/* The submission queue first, then the completion queue: then the controller knows no buffer. */
static bool deleting(struct nvme_drive *drive, uint64_t now_ns)
{
	struct nvme_reset *r = &drive->reset;
	int err = command_state(drive, now_ns);
	struct nvme_sqe sqe;

	if (err > 0)
		return false;
	if (err == 0 && r->cmd.state == NVME_ADMIN_DONE && !r->next_sq) {
		r->stopped = true; /* as far as this queue pair goes */
		order(drive, NVME_ORDER_RETURN);
		enter(drive, NVME_RETURNING, now_ns, 0);
		return true;
	}
	if (err == 0) {
		r->next_sq = r->cmd.state == NVME_ADMIN_NEW;
		sqe = nvme__sqe_delete(r->next_sq ? NVME_ADMIN_DELETE_SQ : NVME_ADMIN_DELETE_CQ,
				       r->qid);
		err = send(drive, &sqe, now_ns);
	}
	if (err == -EAGAIN)
		return false;
	if (err)
		nvme__trouble(drive, r->cause, 0, now_ns);
	return true;
}

static bool disabling(struct nvme_drive *drive, uint64_t now_ns)
{
	struct nvme_reset *r = &drive->reset;
	uint32_t csts = NVME_CSTS_RDY; /* until it says otherwise */
	int err;

	ASSERT(!(drive->cc & NVME_CC_EN));
	if (now_ns < r->look_ns)
		return false;
	r->look_ns = now_ns + pause_ns(r, now_ns);
	err = nvme__ask_csts(drive, &csts);
	if (!err && csts != NVME_CSTS_GONE && !(csts & NVME_CSTS_RDY))
		stopped(drive, now_ns);
	else if (csts == NVME_CSTS_GONE || now_ns >= r->deadline_ns)
		enter(drive, NVME_RESETTING, now_ns, r->forced ? CLOSING_NS : RESET_NS);
	else
		return false;
	return true;
}

/* 0: so it says; -EAGAIN; or it cannot be. */
static int reset_it(struct nvme_drive *drive, uint64_t now_ns)
{
	struct nvme_reset *r = &drive->reset;
	int rc = -ENOTSUP;

	if (drive->ops->reset && r->cause != NVME_CAUSE_REQUEST)
		rc = drive->ops->reset(drive->ctrl);
	if (rc == -EAGAIN && now_ns >= r->deadline_ns && !is_patient(drive))
		return -ETIMEDOUT;
	r->checking = rc >= 0;
	r->reset_rc = rc;
	return rc < 0 ? rc : 0;
}

/* One line for each of the first attempts, then fewer and fewer. */
static bool is_told(const struct nvme_reset *r)
{
	return r->attempts <= TOLD || is_pow2(r->attempts);
}

/* Asks again later: the controller cannot be ours, or does not stop. */
static bool reset_again(struct nvme_drive *drive, int err, uint64_t now_ns)
{
	struct nvme_reset *r = &drive->reset;

	ASSERT(is_patient(drive));
	r->attempts++;
	if (is_told(r))
		nvme__tell(drive, "it cannot be reset (%s): tried again",
			   err ? errno_words(err) : "it does not stop");
	r->checking = false;
	r->look_ns = now_ns + max_u64(rest_ns(r), LOOK_NS);
	return false;
}

static bool resetting(struct nvme_drive *drive, uint64_t now_ns)
{
	struct nvme_reset *r = &drive->reset;
	uint32_t csts = 0;
	int err = 0;

	if (now_ns < r->look_ns)
		return false;
	r->look_ns = now_ns + pause_ns(r, now_ns);
	if (!r->checking)
		err = reset_it(drive, now_ns);
	if (err == -EAGAIN && is_patient(drive) && !r->vacant && has_left(drive)) {
		r->vacant = true;
		stopped(drive, now_ns);
		return true;
	}
	if (!err)
		err = nvme__ask_csts(drive, &csts);
	if (err == -EAGAIN && (now_ns < r->deadline_ns || is_patient(drive)))
		return false;
	if (err || csts == NVME_CSTS_GONE || csts & NVME_CSTS_RDY) {
		if (is_patient(drive))
			return reset_again(drive, err, now_ns);
		last_resort(drive, now_ns);
		return true;
	}
	r->vacant = false;
	r->restarted |= r->reset_rc == 1;
	nvme__tell(drive, "%s",
		   r->reset_rc == 1 ? "connected to a server again" : "function-level reset");
	stopped(drive, now_ns);
	return true;
}

static void rise(struct nvme_drive *drive, uint64_t now_ns)
{
	struct nvme_reset *r = &drive->reset;

	ASSERT(r->stopped && !r->dead && !r->vacant);
	r->cmd = (struct nvme_admin_cmd){ .state = NVME_ADMIN_NEW };
	r->next_qid = next_qid(drive, 1);
	r->next_sq = false;
	r->stopped = false; /* no more: it is made to work again */
	if (r->qid) {
		enter(drive, NVME_CREATING, now_ns, drive->timeout_ns);
		return;
	}
	nvme__up_begin(&drive->up, drive, true, drive->info.qpair_count_max);
	enter(drive, NVME_RISING, now_ns, 0);
}

static bool returning(struct nvme_drive *drive, uint64_t now_ns)
{
	struct nvme_reset *r = &drive->reset;

	ASSERT(r->stopped); /* (2) */
	if (!all_obeyed(drive, NVME_ORDER_RETURN))
		return false;
	if (r->vacant) { /* I/Os are back, and wait elsewhere, or fail */
		enter(drive, NVME_RESETTING, now_ns, RESET_NS);
		return true;
	}
	if (rest_ns(r)) {
		enter(drive, NVME_RESTING, now_ns, 0);
		r->look_ns = now_ns + rest_ns(r);
		return true;
	}
	rise(drive, now_ns);
	return true;
}

/* It does not come up again as it was. */
static void failed(struct nvme_drive *drive, int err, const char *why, uint64_t now_ns)
{
	struct nvme_reset *r = &drive->reset;

	r->attempts++;
	if (is_told(r))
		nvme__tell(drive, "it does not come back: %s (%s): tried again", why,
			   errno_words(err));
	if (r->cmd.state == NVME_ADMIN_FLYING)
		nvme__admin_lose(drive, &r->cmd);
	if (r->qid) { /* (1): the others have not been told yet */
		nvme__trouble(drive, r->cause, 0, now_ns);
		return;
	}
	r->stopped = false;
	stop_controller(drive, now_ns);
}

/* Proves the next namespace at or after `ns`; after the last one, queue pairs are created. */
static void prove_next(struct nvme_drive *drive, struct nvme_drive *ns, uint64_t now_ns)
{
	ns = nvme__proof_of(ns);
	if (ns)
		nvme__proof_begin(drive, ns);
	enter(drive, ns ? NVME_PROVING : NVME_CREATING, now_ns, drive->timeout_ns);
}

static bool rising(struct nvme_drive *drive, uint64_t now_ns)
{
	struct nvme_reset *r = &drive->reset;
	int err;

	if (now_ns < r->look_ns)
		return false;
	err = nvme__up_step(&drive->up, now_ns);
	if (err > 0) {
		r->look_ns = now_ns + pause_ns(r, now_ns);
		return false;
	}
	if (err < 0 && drive->up.gone && drive->ops->reset)
		r->cause = NVME_CAUSE_GONE; /* it may yet come back */
	if (err < 0) {
		failed(drive, err, drive->up.text, now_ns);
		return true;
	}
	prove_next(drive, nvme__first_ns(drive), now_ns);
	return true;
}

/* Only the proof's queue pair exists: nothing else can reach the drive. */
static bool proving(struct nvme_drive *drive, uint64_t now_ns)
{
	struct nvme_reset *r = &drive->reset;
	int err = nvme__proof_step(drive, now_ns);
	char word[NVME_SHARE_WORD], why[NVME_UP_TEXT];

	if (err > 0) {
		r->look_ns = now_ns + pause_ns(r, now_ns);
		return false;
	}
	if (!err) {
		prove_next(drive, nvme__next_ns(drive->proving.ns), now_ns);
		return true;
	}
	(void)snprintf(why, sizeof(why), "%s%s", nvme__share_word(drive->proving.ns, word),
		       err == -EBADF ? drive->proving.wrong
				     : "its first and last blocks cannot be read");
	failed(drive, err, why, now_ns);
	return true;
}

/* A restarted drive with a cache may have lost unflushed writes. */
static void judge_cache(struct nvme_drive *drive, struct nvme_drive *ns)
{
	char word[NVME_SHARE_WORD];

	ASSERT(ns->share.ctl == drive);
	if (!drive->reset.restarted || !ns->info.volatile_cache || ns->read_only)
		return;
	ns->read_only =
		nvme__cached_count(ns) > atomic_load_explicit(&ns->flushed, memory_order_relaxed);
	if (ns->read_only)
		nvme__tell(drive,
			   "%swhat its cache held and was not flushed may be lost: "
			   "read-only until it is opened anew",
			   nvme__share_word(ns, word));
}

static void live_again(struct nvme_drive *drive, uint64_t now_ns)
{
	struct nvme_reset *r = &drive->reset;

	ASSERT(r->life == NVME_CREATING && r->next_qid == 0);
	for (struct nvme_drive *ns = nvme__first_ns(drive); ns; ns = nvme__next_ns(ns))
		judge_cache(drive, ns);
	r->restarted = false;
	drive->events.lost_namespace = false; /* it is there again, or it had not come up */
	atomic_store_explicit(&r->away, false, memory_order_relaxed);
	r->trouble_ns = 0;
	order(drive, NVME_ORDER_RUN);
	nvme__tell(drive, "%s", r->qid ? "its queue pair is back" : "back after a reset");
	r->life = NVME_LIVE;
	r->qid = 0;
	nvme__watch_restart(drive, now_ns);
}

static struct nvme_sqe create_command(struct nvme_drive *drive, uint32_t qid, bool sq)
{
	struct nvme_qpair *qp = drive->qpair[qid];
	uint64_t cq_iova = qp->mem.iova + nvme__rings_cq_offset(qp->rings.depth);

	ASSERT(atomic_load_explicit(&qp->obeyed, memory_order_relaxed) ==
	       word(&drive->reset, NVME_ORDER_RETURN)); /* (3) */
	if (sq)
		return nvme__sqe_create_sq(qid, qp->mem.iova, qp->rings.depth);
	nvme__rings_attach(&qp->rings, drive, qid);
	return nvme__sqe_create_cq(qid, cq_iova, qp->rings.depth, qp->vector);
}

static bool creating(struct nvme_drive *drive, uint64_t now_ns)
{
	struct nvme_reset *r = &drive->reset;
	int err = command_state(drive, now_ns);
	struct nvme_sqe sqe;

	if (err > 0)
		return false;
	if (err) {
		failed(drive, err, "a queue pair cannot be made", now_ns);
		return true;
	}
	if (r->cmd.state == NVME_ADMIN_DONE) {
		r->cmd.state = NVME_ADMIN_NEW;
		r->next_qid = r->next_sq ? next_qid(drive, r->next_qid + 1) : r->next_qid;
		r->next_sq = !r->next_sq;
	}
	if (r->next_qid == 0) {
		live_again(drive, now_ns);
		return true;
	}
	sqe = create_command(drive, r->next_qid, r->next_sq);
	err = send(drive, &sqe, now_ns);
	if (err == -EAGAIN)
		return false;
	if (err)
		failed(drive, err, "a queue pair cannot be made", now_ns);
	return true;
}

bool nvme__reset_turn(struct nvme_drive *drive, uint64_t now_ns)
{
	ASSERT(nvme__helm_taken(drive));
	switch (drive->reset.life) {
	case NVME_STOPPING:
		return stopping(drive, now_ns);
	case NVME_DELETING:
		return deleting(drive, now_ns);
	case NVME_DISABLING:
		return disabling(drive, now_ns);
	case NVME_RESETTING:
		return resetting(drive, now_ns);
	case NVME_RETURNING:
		return returning(drive, now_ns);
	case NVME_RESTING:
		if (now_ns < drive->reset.look_ns)
			return false;
		rise(drive, now_ns);
		return true;
	case NVME_RISING:
		return rising(drive, now_ns);
	case NVME_PROVING:
		return proving(drive, now_ns);
	case NVME_CREATING:
		return creating(drive, now_ns);
	case NVME_LIVE:
	case NVME_DEAD:
		return false;
	}
	UNREACHABLE();
}

void nvme__halt(struct nvme_drive *drive, struct nvme_qpair *own)
{
	struct timespec pause = { .tv_nsec = 100000 };
	bool progress, dead = false;

	nvme__helm_take(drive);
	nvme__trouble(drive, NVME_CAUSE_CLOSING, 0, clock_now_ns());
	nvme__helm_leave(drive);
	while (!dead) {
		nvme__qpair_obey(own);
		nvme__helm_take(drive);
		progress = nvme__reset_turn(drive, clock_now_ns());
		dead = drive->reset.life == NVME_DEAD;
		nvme__helm_leave(drive);
		if (!progress)
			nanosleep(&pause, NULL);
	}
	nvme__qpair_obey(own);
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Polling and sleeping.
 *
 *   step, step, ... nothing to do --spin--> arm --poll once more--> epoll_wait --> disarm, step
 *
 * The spin time adapts: if a sleep was short, spinning would have been better, so the spin doubles,
 * up to spin_max; after a long one it halves, down to ten times the cost of arming.  There is no
 * periodic tick: an idle core does not wake.
 *
 *   starter         thread 0     thread 1 ...
 *   create 0 -----> core made,
 *           <-made- waits
 *   create 1 -------------------> core made,
 *           <-made--------------- waits
 *   go -----------> boots ------> serves        since creating and deleting a queue pair is
 *   join: all have ended; then their cores end    not allowed while another core owns the drive
 *
 *   control       threads 1 ...      thread 0           a drive that is added while they serve: its
 *   wanted -----> its queue pair,    waits              blocks are planned only when all can read
 *                 had -------------> all have theirs:   them
 *   <--------------------- status    the store is told
 *
 *   R2 -> A2   the new drive and its queue pairs are stored before drives_wanted counts it.
 *   R3 -> A3   a core can read from it, before drives_had counts that.
 *   R4 -> A4   the store has it, before the status is set.
 *   thread 0         threads 1 ...        control      a drive that the store has removed
 *   gone ----------> nothing of it is
 *   all have: <----- in flight: left
 *   the same: left ---------------------> all have: queue pairs away, closed
 *
 *   R5 -> A5   the store no longer uses it, before drives_gone is set.
 *   R6 -> A6   a core's queue pair of it is the control thread's, before drives_left counts that.
 *   R7 -> A7   what each thread has done is visible to the last of them, which sets `at`.
 *   R1 -> A1   (app_daemon_control.c) the threads' results are stored before `at` is set.
 */
#define _GNU_SOURCE
#include "appliance/host/app_run.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "base/seal.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { FDS_MAX = 2 * META_DRIVES_MAX + 4 };

#define WALL_EVERY_NS NS_PER_MS

struct pace {
	uint64_t spin_ns;
	uint64_t spin_max_ns;
	uint64_t arm_ns;        /* what going to sleep costs, lately */
	uint64_t idle_since_ns; /* 0: busy */
	uint64_t wall_at_ns;    /* monotonic time of the last check of the calendar */
	uint64_t wall_offset_ns;
	uint64_t beat;
	uint32_t lines; /* of drives, that the control thread was woken for */
};

static inline void cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__("yield" ::: "memory");
#endif
}

/* Files' times need no better than a millisecond: most turns spare themselves a second clock. */
static uint64_t wall_ns(struct pace *p, uint64_t now_ns)
{
	if (now_ns - p->wall_at_ns >= WALL_EVERY_NS) {
		p->wall_at_ns = now_ns;
		p->wall_offset_ns = clock_wall_ns() - now_ns;
	}
	return now_ns + p->wall_offset_ns;
}

/* Those that are watched already stay so. */
static int watch_fds(struct app_thread *t)
{
	int fds[FDS_MAX];
	uint32_t count = app_core_fds(t->core, fds, FDS_MAX - 1);

	fds[count++] = t->wake_fd;
	for (uint32_t i = 0; i < count; i++) {
		struct epoll_event e = { .events = EPOLLIN, .data.fd = fds[i] };

		if (epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, fds[i], &e) && errno != EEXIST)
			return -errno;
	}
	return 0;
}

static void adapt(struct pace *p, uint64_t slept_ns)
{
	uint64_t least = min_u64(10 * p->arm_ns, p->spin_max_ns);

	if (slept_ns < p->spin_max_ns)
		p->spin_ns = min_u64(max_u64(2 * p->spin_ns, least), p->spin_max_ns);
	else
		p->spin_ns = max_u64(p->spin_ns / 2, least);
}

static void sleep_until(struct pace *p, struct app_thread *t)
{
	struct app_core *core = t->core;
	uint64_t start_ns = clock_now_ns(), deadline_ns = app_core_deadline(core), end_ns, left_ns;
	uint64_t slept_ns;
	struct epoll_event events[4];
	struct timespec ts;
	uint64_t count;

	if (deadline_ns <= start_ns || !app_core_arm(core))
		return;
	end_ns = clock_now_ns();
	p->arm_ns = (7 * p->arm_ns + (end_ns - start_ns)) / 8;
	left_ns = deadline_ns - start_ns;
	ts = (struct timespec){ (time_t)(left_ns / NS_PER_S), (long)(left_ns % NS_PER_S) };
	/* EINTR or an error is a wake-up, too: the next turn finds out what there is. */
	atomic_store_explicit(&t->asleep, true, memory_order_relaxed);
	(void)epoll_pwait2(t->epoll_fd, events, ARRAY_LEN(events),
			   deadline_ns == UINT64_MAX ? NULL : &ts, NULL);
	atomic_store_explicit(&t->asleep, false, memory_order_relaxed);
	app_core_disarm(core);
	(void)!read(t->wake_fd, &count, sizeof(count));
	slept_ns = clock_now_ns() - end_ns;
	adapt(p, slept_ns);
	app_core_rested(core, slept_ns, 0);
}

static void rest(struct pace *p, struct app_thread *t, uint64_t now_ns)
{
	bool quiet = app_core_scrubs_alone(t->core);
	uint64_t spin_ns = p->spin_ns;

	if (!p->idle_since_ns)
		p->idle_since_ns = now_ns;
	if (!quiet && now_ns - p->idle_since_ns < p->spin_ns) {
		cpu_relax();
		return;
	}
	app_core_rested(t->core, 0, now_ns - p->idle_since_ns);
	sleep_until(p, t);
	if (quiet) /* that the drives were quick says nothing about clients */
		p->spin_ns = spin_ns;
	p->idle_since_ns = 0;
}

/* A drive had an event: wakes the control thread to write lines. */
static wk_cold void wake_control(struct pace *p, struct app_thread *t)
{
	uint64_t one = 1;

	p->lines = app_core_lines(t->core);
	(void)!write(t->run->event_fd, &one, sizeof(one));
}

static void turn(struct pace *p, struct app_thread *t)
{
	uint64_t now_ns = clock_now_ns();

	atomic_store_explicit(&t->beat, ++p->beat, memory_order_relaxed);
	if (!app_core_step(t->core, now_ns, wall_ns(p, now_ns))) {
		rest(p, t, now_ns);
	} else if (p->idle_since_ns) {
		app_core_rested(t->core, 0, now_ns - p->idle_since_ns);
		p->idle_since_ns = 0;
	}
	if (unlikely(app_core_lines(t->core) != p->lines))
		wake_control(p, t);
}

/* The first that has something to say. */
static void conclude(struct app_run *run)
{
	for (uint32_t i = 0; i < run->started && !run->status; i++) {
		run->status = run->thread[i].status;
		memcpy(run->why, run->thread[i].why, sizeof(run->why));
	}
}

/* The last of all threads reports it. */
static void tell(struct app_run *run, _Atomic uint32_t *count, enum app_run_at at)
{
	uint64_t one = 1;

	/* R7, A7 */
	if (atomic_fetch_add_explicit(count, 1, memory_order_acq_rel) + 1 != run->started)
		return;
	if (at == APP_RUN_ENDED)
		conclude(run);
	atomic_store_explicit(&run->at, at, memory_order_release); /* R1 */
	(void)!write(run->event_fd, &one, sizeof(one));
}

static int boot(struct app_thread *t, struct pace *p)
{
	int err;

	while ((err = app_core_boot_status(t->core)) == -EAGAIN)
		turn(p, t);
	if (err)
		snprintf(t->why, sizeof(t->why), "%s", app_core_error(t->core));
	else if (*app_core_error(t->core))
		log_warn("WEKA-309: mounted, but %s", app_core_error(t->core));
	return err;
}

static void drive_said(struct app_thread *t, int status)
{
	uint64_t one = 1;

	t->adding = false;
	atomic_store_explicit(&t->run->drive_status, status, memory_order_release); /* R4 */
	(void)!write(t->run->event_fd, &one, sizeof(one));
}

/* The store makes room for its zones: the one time that a serving thread takes memory. */
static wk_cold void drive_add(struct app_thread *t)
{
	enum seal_mode was = seal_thread_lift();
	int err = app_core_drive_add(t->core, &t->run->new_drive.info);

	seal_thread_back(was);
	t->adding = !err;
	if (err)
		drive_said(t, err);
}

static wk_cold void take_drive(struct app_thread *t, uint32_t wanted)
{
	struct app_run *run = t->run;
	const uint32_t others = (run->cores - 1) * wanted;
	uint64_t one = 1;

	if (t->index == 0 &&
	    atomic_load_explicit(&run->drives_had, memory_order_acquire) != others) /* A3 */
		return;
	t->drives = wanted;
	if (!run->new_drive.again)
		app_core_drive(t->core, run->new_drive.number, run->new_drive.qp[t->index],
			       &run->new_drive.info);
	if (!run->new_drive.again && watch_fds(t))
		log_warn("WEKA-106: core %u: cannot sleep for the new drive", t->index);
	if (t->index == 0) {
		drive_add(t);
		return;
	}
	atomic_fetch_add_explicit(&run->drives_had, 1, memory_order_release); /* R3 */
	(void)!write(run->thread[0].wake_fd, &one, sizeof(one));
}

static void wake_all(struct app_run *run)
{
	uint64_t one = 1;

	for (uint32_t i = 0; i < run->started; i++)
		(void)!write(run->thread[i].wake_fd, &one, sizeof(one));
}

/* The store's core is the last: messages of others may still concern the drive. */
static bool others_left(struct app_run *run, uint32_t d)
{
	return atomic_load_explicit(&run->drives_left[d], memory_order_acquire) + 1 ==
	       run->started; /* A6 */
}

/* As soon as nothing of it is in flight here. */
static wk_cold void leave_drives(struct app_thread *t, uint64_t gone)
{
	struct app_run *run = t->run;
	uint64_t one = 1;

	for (uint32_t d = 0; d < META_DRIVES_MAX; d++) {
		if (!(gone >> d & 1) || t->left >> d & 1)
			continue;
		if (t->index == 0 && !others_left(run, d))
			continue;
		if (app_core_has_drive(t->core, d)) {
			t->given[d] = app_core_drive_leave(t->core, d);
			if (!t->given[d])
				continue;
		}
		t->left |= 1ull << d;
		atomic_fetch_add_explicit(&run->drives_left[d], 1, memory_order_release); /* R6 */
		(void)!write(t->index ? run->thread[0].wake_fd : run->event_fd, &one, sizeof(one));
	}
}

static void gone_drives(struct app_thread *t)
{
	struct app_run *run = t->run;
	uint64_t gone = atomic_load_explicit(&run->drives_gone, memory_order_acquire); /* A5 */

	if (t->index == 0 && unlikely(app_core_drives_gone(t->core) != gone)) {
		gone = app_core_drives_gone(t->core);
		atomic_store_explicit(&run->drives_gone, gone, memory_order_release); /* R5 */
		wake_all(run);
	}
	if (unlikely(gone != t->left))
		leave_drives(t, gone);
}

static void drives(struct app_thread *t)
{
	uint32_t wanted =
		atomic_load_explicit(&t->run->drives_wanted, memory_order_acquire); /* A2 */

	if (unlikely(wanted != t->drives))
		take_drive(t, wanted);
	else if (unlikely(t->adding) && app_core_drive_status(t->core) != -EAGAIN)
		drive_said(t, app_core_drive_status(t->core));
}

/* The store's core takes what the configuration says now. */
static void tune(struct app_thread *t)
{
	const uint32_t spare = atomic_load_explicit(&t->run->spare_drives, memory_order_relaxed);
	const uint64_t rate = atomic_load_explicit(&t->run->rebuild_rate, memory_order_relaxed);

	if (likely(spare == t->spare_drives && rate == t->rebuild_rate))
		return;
	app_core_rebuild(t->core, rate, spare);
	t->spare_drives = spare;
	t->rebuild_rate = rate;
}

static void wants(struct app_thread *t)
{
	struct app_run *run = t->run;
	const int now = (int)app_core_wants(t->core);
	uint64_t one = 1;

	if (likely(now == atomic_load_explicit(&run->wants, memory_order_relaxed)))
		return;
	atomic_store_explicit(&run->wants, now, memory_order_relaxed);
	(void)!write(run->event_fd, &one, sizeof(one));
}

/* The loop of a sealed thread.  A function of its own, since test/sealed.py begins its search
 * here. */
static __attribute__((noinline)) int serve(struct app_thread *t, struct pace *p)
{
	bool stopping = false;
	int err;

	while ((err = app_core_stop_status(t->core)) == -EAGAIN) {
		if (!stopping && atomic_load_explicit(&t->run->stop, memory_order_relaxed)) {
			stopping = true;
			app_core_stop(t->core);
		}
		drives(t);
		gone_drives(t);
		if (t->index == 0) {
			wants(t);
			tune(t);
		}
		if (unlikely(atomic_load_explicit(&t->run->refused, memory_order_relaxed)))
			app_core_refuse(t->core);
		turn(p, t);
	}
	if (err)
		snprintf(t->why, sizeof(t->why), "%s", app_core_error(t->core));
	return err;
}

static void pin(const struct app_thread *t)
{
	int cpu = t->run->cpus ? t->run->cpus[t->index] : -1;
	cpu_set_t cpus;

	if (cpu < 0)
		return;
	CPU_ZERO(&cpus);
	CPU_SET((size_t)cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		log_warn("WEKA-105: core %d: cannot be pinned to it: %s", cpu, strerror(errno));
}

static int make_core(struct app_thread *t)
{
	struct app_core_cfg cfg = t->run->cfg;
	int err;

	cfg.cores = t->run->group;
	cfg.index = t->index;
	if (t->index > 0)
		cfg.srv = t->run->srv[t->index];
	err = app_core_create(&t->core, &cfg, t->why);
	if (err)
		return err;
	t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	err = t->epoll_fd < 0 ? -errno : watch_fds(t);
	if (err)
		snprintf(t->why, sizeof(t->why), "epoll: %s", strerror(-err));
	return err;
}

static void *core_thread(void *arg)
{
	struct app_thread *t = arg;
	struct app_run *run = t->run;
	struct pace p = { .spin_max_ns = run->spin_max_ns, .spin_ns = run->spin_max_ns };

	pin(t); /* before it takes memory: that of its node */
	t->status = make_core(t);
	sem_post(&run->made);
	while (sem_wait(&run->go) && errno == EINTR)
		;
	if (!run->failed)
		t->status = boot(t, &p);
	if (!run->failed && t->status == 0) {
		tell(run, &run->serving, APP_RUN_SERVING);
		seal_thread();
		t->status = serve(t, &p);
		seal_thread_open();
	}
	atomic_store_explicit(&t->asleep, true,
			      memory_order_relaxed); /* until the others have, too */
	tell(run, &run->ended, APP_RUN_ENDED);
	return NULL;
}

static int start_thread(struct app_run *run, uint32_t index)
{
	struct app_thread *t = &run->thread[index];
	int err;

	*t = (struct app_thread){
		.run = run,
		.index = index,
		.epoll_fd = -1,
		.spare_drives = run->cfg.spare_drives,
		.rebuild_rate = UINT64_MAX, /* not told yet */
	};
	t->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (t->wake_fd < 0)
		return -errno;
	err = pthread_create(&t->thread, NULL, core_thread, t);
	if (err) {
		close(t->wake_fd);
		return -err;
	}
	run->started++;
	while (sem_wait(&run->made) && errno == EINTR)
		;
	run->failed = t->status != 0;
	return 0;
}

int app_run_start(struct app_run *run)
{
	int err = 0;

	run->core = NULL;
	run->status = 0;
	run->why[0] = '\0';
	run->cores = run->cores ? run->cores : 1;
	run->started = 0;
	run->failed = false;
	atomic_init(&run->at, APP_RUN_STARTING);
	atomic_init(&run->stop, false);
	atomic_init(&run->wants, APP_WANTS_NOTHING);
	atomic_init(&run->refused, false);
	atomic_init(&run->spare_drives, run->cfg.spare_drives);
	atomic_init(&run->rebuild_rate, run->cfg.rebuild_rate);
	atomic_init(&run->serving, 0);
	atomic_init(&run->ended, 0);
	atomic_init(&run->drives_wanted, 0);
	atomic_init(&run->drives_had, 0);
	atomic_init(&run->drive_status, 0);
	atomic_init(&run->drives_gone, 0);
	for (uint32_t d = 0; d < META_DRIVES_MAX; d++)
		atomic_init(&run->drives_left[d], 0);
	run->group = NULL;
	if (run->cores > 1)
		err = app_cores_create(&run->group, run->cores, run->cfg.ops_max);
	if (err)
		return err;
	ASSERT(sem_init(&run->made, 0, 0) == 0 && sem_init(&run->go, 0, 0) == 0);
	for (uint32_t i = 0; i < run->cores && !err && !run->failed; i++)
		err = start_thread(run, i);
	run->failed |= err != 0;
	run->core = run->thread[0].core;
	for (uint32_t i = 0; i < run->started; i++)
		sem_post(&run->go);
	if (err)
		app_run_join(run);
	return err;
}

void app_run_stop(struct app_run *run)
{
	atomic_store_explicit(&run->stop, true, memory_order_relaxed);
	wake_all(run);
}

void app_run_refuse(struct app_run *run)
{
	atomic_store_explicit(&run->refused, true, memory_order_relaxed);
	wake_all(run);
}

void app_run_rebuild(struct app_run *run, uint64_t rate, uint32_t spare_drives)
{
	atomic_store_explicit(&run->spare_drives, spare_drives, memory_order_relaxed);
	atomic_store_explicit(&run->rebuild_rate, rate, memory_order_relaxed);
	wake_all(run);
}

int app_run_queues(const struct app_run *run, struct nvme_drive *drive, uint32_t depth,
		   struct app_new_drive *out)
{
	struct nvme_info info;
	uint32_t n = 0;
	int err = 0;

	nvme_drive_info(drive, &info);
	for (; n < run->cores && !err; n += !err)
		err = nvme_qpair_create(drive, min_u32(depth, info.depth_max), &out->qp[n]);
	if (!err && nvme_qpair_io_blocks_max(out->qp[0]) < META_IO_BLOCKS_MAX &&
	    nvme_qpair_io_blocks_max(out->qp[0]) < info.nblocks)
		err = -EINVAL;
	while (err && n) {
		nvme_qpair_stop(out->qp[--n]);
		nvme_qpair_destroy(out->qp[n]);
	}
	return err;
}

void app_run_drive(struct app_run *run, const struct app_new_drive *drive)
{
	ASSERT(app_run_drive_status(run) != -EAGAIN);
	run->new_drive = *drive;
	atomic_store_explicit(&run->drive_status, -EAGAIN, memory_order_relaxed);
	atomic_fetch_add_explicit(&run->drives_wanted, 1, memory_order_release); /* R2 */
	wake_all(run);
}

void app_run_drive_again(struct app_run *run, const struct app_new_drive *drive)
{
	struct app_new_drive again = *drive;

	again.again = true;
	app_run_drive(run, &again);
}

bool app_run_is_alive(const struct app_run *run, uint64_t beats[APP_CORES_MAX])
{
	bool alive = true;

	if (atomic_load_explicit(&run->at, memory_order_relaxed) != APP_RUN_SERVING)
		return true;
	for (uint32_t i = 0; i < run->started; i++) {
		const struct app_thread *t = &run->thread[i];
		const uint64_t beat = atomic_load_explicit(&t->beat, memory_order_relaxed);

		alive &= beat != beats[i] || atomic_load_explicit(&t->asleep, memory_order_relaxed);
		beats[i] = beat;
	}
	return alive;
}

int app_run_drive_status(struct app_run *run)
{
	return atomic_load_explicit(&run->drive_status, memory_order_acquire); /* A4 */
}

/* Deletes the queue pairs that threads gave back, or never had. */
static void give_queues(struct app_run *run, uint32_t d)
{
	for (uint32_t i = 0; i < run->started; i++) {
		struct nvme_qpair **qp = &run->thread[i].given[d];

		if (*qp) {
			nvme_qpair_stop(*qp);
			nvme_qpair_destroy(*qp);
		}
		*qp = NULL;
	}
}

int app_run_drive_gone(struct app_run *run)
{
	const uint64_t gone = atomic_load_explicit(&run->drives_gone, memory_order_relaxed);

	for (uint32_t d = 0; d < META_DRIVES_MAX; d++) {
		if (!(gone >> d & 1) || run->closed >> d & 1 ||
		    atomic_load_explicit(&run->drives_left[d], memory_order_acquire) !=
			    run->started) /* A6 */
			continue;
		run->closed |= 1ull << d;
		give_queues(run, d);
		return (int)d;
	}
	return -1;
}

/* Returns queue pairs of threads that ended before they could take theirs. */
static void give_back(struct app_run *run)
{
	uint32_t wanted = atomic_load_explicit(&run->drives_wanted, memory_order_relaxed);

	for (uint32_t i = 0; i < run->started; i++)
		if (run->thread[i].core && run->thread[i].drives != wanted &&
		    !run->new_drive.again) {
			nvme_qpair_stop(run->new_drive.qp[i]);
			nvme_qpair_destroy(run->new_drive.qp[i]);
		}
}

void app_run_join(struct app_run *run)
{
	for (uint32_t i = 0; i < run->started; i++)
		pthread_join(run->thread[i].thread, NULL);
	for (uint32_t i = 0; i < run->started; i++) /* after a clean stop nothing is in flight */
		if (run->thread[i].core)
			app_core_abandon(run->thread[i].core);
	give_back(run);
	for (uint32_t d = 0; d < META_DRIVES_MAX; d++)
		give_queues(run, d);
	for (uint32_t i = 0; i < run->started; i++) {
		struct app_thread *t = &run->thread[i];

		app_core_destroy(t->core);
		close(t->wake_fd);
		if (t->epoll_fd >= 0)
			close(t->epoll_fd);
	}
	run->core = NULL;
	app_cores_destroy(run->group);
	sem_destroy(&run->made);
	sem_destroy(&run->go);
}

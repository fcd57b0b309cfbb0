/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A drive that goes wrong under load, in simulated time.  make sim SEED=n runs one seed again.
 *
 *   threads (one queue pair each, in turn)      owner            device
 *   submit, ring, poll, doze                    nvme_drive_step  nvme_faulty_run, whenever
 *
 * A seed picks faults and the ways to recover: commands that never end or end late, any status,
 * unexpected completions, CSTS.CFS, registers of all ones, a controller that does not stop, or does
 * not start, or comes back as another one, a host that wants the device back.  In every run:
 *
 *  (1) each submitted I/O comes back exactly once;
 *  (2) nothing is written to a buffer whose I/O has come back, except for quarantined ones: each is
 *      filled with a pattern and compared when it is used again, and at the end;
 *  (3) a read returns the bytes written, or, where writes failed, one of the versions since;
 *  (4) bytes that were flushed, or written with FUA, are there when the drive is opened again, torn
 *      nowhere inside an atomic unit;
 *  (5) the doorbells of a stopped controller are not rung;
 *  (6) no function that a polling thread calls allocates memory, or calls one that may (strerror);
 *  (7) it settles: at the end the drive is good or dead, with a line that says why; it is not dead
 *      when one reset would have helped, and nobody is left waiting.
 *
 * test/sim/drive_mutants.sh breaks the rules of nvme_reset.c one by one: each is noticed.
 *
 * usage: drive [--seed N] [--runs N] [--verbose]
 */
#include "test/sim/drive_content.h"
#include "test/sim/drive_scenario.h"
#include "test/sim/sim_args.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/seal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum {
	QPAIRS_MAX = 3,
	BLOCKS = 48,
	IO_BLOCKS = 6,
	SLOTS = 24, /* I/Os, each with a buffer of its own */
	TRIES_MAX = 8,
	ROUNDS_MAX = 200000,
};

#define BUFFER_BYTES (IO_BLOCKS * NVME_BLOCK_SIZE)
#define TIMEOUT_NS   (1000 * NS_PER_MS)

enum slot_state { IDLE, FLYING, WAITING, LOST };

struct slot {
	struct nvme_io io;
	enum slot_state state;
	uint32_t thread; /* whose queue pair it is on */
	uint32_t tries;
	uint32_t version;          /* of a write */
	uint32_t low[IO_BLOCKS];   /* of a read: what it may see at least */
	uint32_t snapshot[BLOCKS]; /* of a flush: what it covers          */
	uint64_t *words;
	uint32_t poisoned_bytes; /* that nobody may write to now */
};

/* A block's versions: every unit of it is of one between low and high; durable, of safe at least.
 */
struct block {
	uint32_t low, high, safe;
	uint32_t users; /* I/Os in flight that touch it; a writer is alone */
	bool writing;
};

static struct world {
	uint64_t seed;
	struct rand_state rand;
	struct sim_power power;
	struct sim_drive *sim;
	struct nvme_dma *dma;
	struct nvme_faulty faulty;
	struct nvme_drive *drive;
	struct nvme_qpair *qp[QPAIRS_MAX];
	uint32_t qpair_count;
	uint32_t dozing[QPAIRS_MAX]; /* turns */
	uint8_t *memory;
	uint64_t iova;
	struct slot slot[SLOTS];
	struct block block[BLOCKS];
	struct drive_scenario s;
	bool struck; /* the scenario's fault has begun */
	uint64_t struck_ns;
	uint64_t restarts_seen;
	bool lost_some;     /* that had been acknowledged, and not flushed */
	char serial[21];    /* of the right drive     */
	uint64_t size_lbas; /* of the right namespace */
	uint32_t version;
	uint32_t wanted, begun;
	uint64_t taken, returned, retried, failed_count, quarantined;
	bool cache;
	char last_line[NVME_LINE_BYTES];
	char why[256];
} w;

static struct {
	uint64_t seed, runs, taken, returned, retried, failed, quarantined, dead, resets, restarts,
		aborts, timeouts, lies;
	bool verbose;
	uint64_t by_trigger[16];
} total;

__attribute__((format(printf, 1, 2))) static bool wrong(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (!w.why[0])
		(void)vsnprintf(w.why, sizeof(w.why), format, args);
	va_end(args);
	return false;
}

static uint32_t pick(uint32_t bound)
{
	return (uint32_t)rand_below(&w.rand, bound);
}

/* ---- faults ------------------------------------------------------------------------------- */

/* Now and then a command takes as long as several timeouts. */
static uint64_t dawdle_ns(void *user, const struct nvme_soft_cmd *cmd)
{
	(void)user;
	(void)cmd;
	return w.struck && pick(12) == 0 ? rand_below(&w.rand, 20 * TIMEOUT_NS) : 0;
}

static void strike(void)
{
	struct nvme_faults ctrl = w.s.ctrl;

	w.struck = true;
	w.struck_ns = w.power.now_ns;
	sim_drive_faults(w.sim, &w.s.sim);
	nvme_faulty_set(&w.faulty, &ctrl);
	if (w.s.trigger == DRIVE_NAMESPACE) { /* seen at the reset that follows */
		w.size_lbas = w.faulty.soft->own_ns.size_lbas;
		memcpy(w.serial, sim_drive_traits(w.sim)->serial, sizeof(w.serial));
		if (pick(2))
			w.faulty.soft->own_ns.size_lbas /= 2;
		else
			(void)snprintf(sim_drive_traits(w.sim)->serial, 21, "another");
		w.faulty.faults.fatal = true;
	}
	/* A drive that was pulled has no power: its writes in flight are torn, its cache is gone.
	 */
	if (ctrl.gone && !ctrl.has_reset)
		sim_power_cut(&w.power, rand_u64(&w.rand));
}

/* Whatever was wrong with completions is over: what was done must now be enough. */
static void relent(void)
{
	struct sim_faults calm = { .delay_max_ns = w.s.sim.delay_max_ns };

	w.s.sim = calm;
	sim_drive_faults(w.sim, &calm);
	w.faulty.faults.twice_ppm = w.faulty.faults.unknown_ppm = w.faulty.faults.queue_ppm = 0;
	if (w.s.trigger == DRIVE_NAMESPACE && w.s.returns) {
		w.faulty.soft->own_ns.size_lbas = w.size_lbas;
		memcpy(sim_drive_traits(w.sim)->serial, w.serial, sizeof(w.serial));
	}
}

/* ---- buffers and blocks --------------------------------------------------------------------- */

static uint64_t poison[BUFFER_BYTES / 8];

static void poison_buffer(struct slot *s)
{
	s->poisoned_bytes = s->io.nblocks * NVME_BLOCK_SIZE;
	memcpy(s->words, poison, s->poisoned_bytes);
}

/* (2) */
static bool untouched(const struct slot *s)
{
	uint32_t i = 0;

	if (memcmp(s->words, poison, s->poisoned_bytes) == 0)
		return true;
	while (s->words[i] == poison[i])
		i++;
	return wrong("buffer %d was written to after its I/O had come back, at %u",
		     (int)(s - w.slot), 8 * i);
}

/* (3) */
static bool block_fits(const uint64_t *words, uint32_t block, uint32_t low, uint32_t high)
{
	char why[128];

	return drive_block_fits(words, block, low, high, why, sizeof(why)) || wrong("%s", why);
}

/* ---- I/Os ----------------------------------------------------------------------------------- */

static bool may_use(uint32_t first, uint32_t count, bool write)
{
	for (uint32_t b = first; b < first + count; b++)
		if (w.block[b].writing || (write && w.block[b].users))
			return false;
	return true;
}

static void use(struct slot *s, int32_t by)
{
	for (uint32_t i = 0; i < s->io.nblocks; i++) {
		struct block *b = &w.block[s->io.block + i];

		b->users += (uint32_t)by;
		b->writing = s->io.op == NVME_WRITE && by > 0;
	}
}

static void prepare(struct slot *s)
{
	uint64_t *words = s->words;

	s->poisoned_bytes = 0;
	if (s->io.op == NVME_WRITE)
		s->version = ++w.version;
	for (uint32_t i = 0; i < s->io.nblocks; i++, words += NVME_BLOCK_SIZE / 8) {
		struct block *b = &w.block[s->io.block + i];

		s->low[i] = b->low;
		if (s->io.op == NVME_READ)
			continue;
		b->high = s->version;
		for (uint32_t k = 0; k < NVME_BLOCK_SIZE / 8; k++)
			words[k] = drive_word((uint32_t)s->io.block + i, s->version, k);
	}
	for (uint32_t b = 0; s->io.op == NVME_FLUSH && b < BLOCKS; b++)
		s->snapshot[b] = w.block[b].low;
}

static bool pick_io(struct slot *s)
{
	uint32_t kind = pick(16);
	uint32_t count = kind == 0 ? 0 : 1 + pick(IO_BLOCKS);
	uint32_t first = pick(BLOCKS - count);

	s->io = (struct nvme_io){ .op = kind == 0  ? NVME_FLUSH
					: kind < 8 ? NVME_WRITE
						   : NVME_READ,
				  .nblocks = count,
				  .block = first,
				  .fua = pick(4) == 0,
				  .iova = w.iova + (uint64_t)(s - w.slot) * BUFFER_BYTES };
	return may_use(first, count, s->io.op == NVME_WRITE);
}

static bool begin(uint32_t t, struct slot *s)
{
	int err;

	s->thread = t;
	if (!pick_io(s))
		return true;
	if (!untouched(s))
		return false;
	prepare(s);
	s->tries = 0;
	err = nvme_submit(w.qp[t], &s->io);
	if (err == 0) {
		s->state = FLYING;
		s->io.owner = s;
		use(s, 1);
		w.taken++;
		w.begun++;
		return true;
	}
	if (err != -EAGAIN && err != -ENODEV && err != -EROFS && err != -EHOSTDOWN)
		return wrong("submit: %s", strerror(-err));
	if (err != -EAGAIN)
		w.begun++; /* so that it ends */
	poison_buffer(s);
	return true;
}

static bool read_back(const struct slot *s)
{
	for (uint32_t i = 0; i < s->io.nblocks; i++)
		if (!block_fits(s->words + i * (NVME_BLOCK_SIZE / 8), (uint32_t)s->io.block + i,
				s->low[i], w.block[s->io.block + i].high))
			return false;
	return true;
}

static bool succeeded(struct slot *s)
{
	if (s->io.op == NVME_READ)
		return read_back(s);
	for (uint32_t b = 0; s->io.op == NVME_FLUSH && b < BLOCKS; b++)
		w.block[b].safe = max_u32(w.block[b].safe, s->snapshot[b]);
	for (uint32_t i = 0; i < s->io.nblocks; i++) {
		struct block *b = &w.block[s->io.block + i];

		b->low = b->high = s->version;
		if (s->io.fua || !w.cache)
			b->safe = s->version;
	}
	return true;
}

/* As who has work for the drive does: again, when it takes it. */
static bool may_retry(struct slot *s)
{
	return s->io.status && s->io.retry && !s->io.quarantined && ++s->tries <= TRIES_MAX;
}

/* It is over, well or not. */
static bool ended(struct slot *s)
{
	s->state = IDLE;
	use(s, -1);
	if (s->io.status)
		w.failed_count++;
	else if (!succeeded(s))
		return false;
	if (s->io.status && s->io.quarantined)
		s->state = LOST;
	else
		poison_buffer(s);
	return true;
}

static bool submit_again(uint32_t t, struct slot *s)
{
	int err;

	if (!untouched(s))
		return false;
	err = nvme_submit(w.qp[t], &s->io);
	if (err == -EAGAIN)
		return true;
	if (err) {
		s->io.status = err;
		s->io.quarantined = false;
		return ended(s);
	}
	s->state = FLYING;
	s->poisoned_bytes = 0;
	w.taken++;
	w.retried++;
	return true;
}

/* (1) */
static bool came_back(struct nvme_io *io)
{
	struct slot *s = io->owner;

	if (s->state != FLYING)
		return wrong("an I/O came back that was not in flight");
	w.returned++;
	if (io->status && io->quarantined && io->retry)
		return wrong("an I/O may be retried while the drive still works on it");
	if (io->status && io->quarantined)
		w.quarantined++;
	if (!may_retry(s))
		return ended(s);
	s->state = WAITING;
	if (s->io.op == NVME_READ) /* nothing may come now any more: (2) */
		poison_buffer(s);
	return true;
}

static uint32_t in_flight(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < SLOTS; i++)
		count += w.slot[i].state == FLYING || w.slot[i].state == WAITING;
	return count;
}

/* ---- one turn ------------------------------------------------------------------------------- */

static bool thread_turn(uint32_t t)
{
	struct nvme_qpair *qp = w.qp[t];
	struct nvme_io *done[8];
	uint32_t count;

	if (w.dozing[t]) { /* it does something else, sometimes for long */
		w.dozing[t]--;
		return true;
	}
	w.dozing[t] = pick(4) ? 0 : pick(100) ? 1 : pick(100);
	if (nvme_drive_health(w.drive) == NVME_HEALTH_RESETTING && pick(20) == 0)
		w.dozing[t] = pick(100);
	for (uint32_t i = 0; i < SLOTS; i++)
		if (w.slot[i].state == WAITING && w.slot[i].thread == t &&
		    !submit_again(t, &w.slot[i]))
			return false;
	for (uint32_t i = 0; i < 4 && w.begun < w.wanted; i++) {
		struct slot *s = &w.slot[pick(SLOTS)];

		if (s->state == IDLE && !begin(t, s))
			return false;
	}
	if (pick(4))
		nvme_ring(qp);
	count = nvme_poll(qp, done, 1 + pick(8));
	for (uint32_t i = 0; i < count; i++)
		if (!came_back(done[i]))
			return false;
	return true;
}

/* The drive was restarted, and has lost what was not flushed: it may say so by old versions. */
static void forget_cache(void)
{
	for (uint32_t b = 0; b < BLOCKS; b++) {
		w.lost_some |= w.block[b].low > w.block[b].safe;
		w.block[b].low = w.block[b].safe;
	}
	for (uint32_t i = 0; i < SLOTS; i++)
		for (uint32_t k = 0; k < w.slot[i].io.nblocks; k++)
			w.slot[i].low[k] = w.block[w.slot[i].io.block + k].low;
	w.restarts_seen = w.faulty.reset_count;
}

static void read_lines(void)
{
	char text[NVME_LINE_BYTES];

	while (nvme_drive_line(w.drive, text, sizeof(text))) {
		if (total.verbose)
			printf("  %10.3f ms  %s\n", (double)w.power.now_ns / 1e6, text);
		(void)snprintf(w.last_line, sizeof(w.last_line), "%s", text);
	}
}

/* In front of libc's, which allocates memory only in some locales. */
char *strerror(int err)
{
	static char text[32];

	seal_check("strerror");
	(void)snprintf(text, sizeof(text), "errno %d", err);
	return text;
}

/* (6): the threads' turns and the owner's. */
static bool driver_turn(bool *progress)
{
	bool good = true;

	seal_thread_count();
	for (uint32_t t = 0; t < w.qpair_count && good; t++)
		good = thread_turn(t);
	if (good && pick(8))
		*progress = nvme_drive_step(w.drive, w.power.now_ns);
	seal_thread_open();
	if (good && seal_count() > 0)
		return wrong("a polling thread allocates memory");
	return good;
}

static bool turn(void)
{
	bool progress = false;

	if (!w.struck && w.power.now_ns >= w.s.at_ns)
		strike();
	if (w.faulty.autonomous)
		nvme_faulty_run(&w.faulty);
	if (!driver_turn(&progress))
		return false;
	if (w.s.ctrl.reset_restarts && w.faulty.reset_count != w.restarts_seen)
		forget_cache();
	read_lines();
	if (progress && pick(2))
		return true; /* all of that in one moment */
	w.power.now_ns += 1 + rand_below(&w.rand, 20000);
	return true;
}

/* Nothing moves but time: to the next thing that happens. */
static void jump(void)
{
	uint64_t next_ns = min_u64(sim_power_next_ns(&w.power), nvme_drive_deadline(w.drive));

	if (!w.struck)
		next_ns = min_u64(next_ns, w.s.at_ns);
	if (w.drive->reset.life == NVME_STOPPING || w.drive->reset.life == NVME_RETURNING)
		w.power.now_ns += TIMEOUT_NS / 1000; /* it waits for threads, who doze */
	else if (next_ns == UINT64_MAX)
		w.power.now_ns += TIMEOUT_NS / 50;
	else if (next_ns > w.power.now_ns)
		w.power.now_ns = next_ns;
}

static bool all_lost(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < SLOTS; i++)
		count += w.slot[i].state == LOST;
	return count == SLOTS;
}

/* Then time does not jump: what a thread has not rung for a second has timed out, and rightly. */
static bool somebody_dozes(void)
{
	for (uint32_t t = 0; t < w.qpair_count; t++)
		if (w.dozing[t] > 1)
			return true;
	return false;
}

static bool is_serving(void)
{
	enum nvme_health health = nvme_drive_health(w.drive);

	return health != NVME_HEALTH_RESETTING && health != NVME_HEALTH_AWAY;
}

static bool settled(void)
{
	enum nvme_health health = nvme_drive_health(w.drive);

	/* An idle drive is not looked at: it is kept busy for some ticks. */
	return w.struck && w.power.now_ns > w.struck_ns + TIMEOUT_NS / 2 &&
	       (w.begun >= w.wanted || all_lost()) && in_flight() == 0 &&
	       health != NVME_HEALTH_RESETTING && (health != NVME_HEALTH_AWAY || w.s.stays_away);
}

/* (7) */
static bool run_it(void)
{
	uint64_t patience_ns = 0;

	for (uint32_t rounds = 0; !settled(); rounds++) {
		if (rounds > ROUNDS_MAX)
			return wrong("it does not settle: %u in flight, life %d", in_flight(),
				     (int)w.drive->reset.life);
		if (!turn())
			return false;
		if ((rounds % 8 == 7 && !somebody_dozes()) || !is_serving())
			jump();
		if (w.struck && w.begun >= w.wanted && !in_flight() &&
		    nvme_drive_health(w.drive) == NVME_HEALTH_GOOD &&
		    w.power.now_ns <= w.struck_ns + TIMEOUT_NS / 2)
			w.wanted = w.begun + 1;
		/* A controller that lies goes on for a while; then it stops. */
		if (w.struck && patience_ns == 0)
			patience_ns = w.power.now_ns + rand_below(&w.rand, 60 * TIMEOUT_NS);
		if (w.struck && (w.power.now_ns > patience_ns ||
				 (w.seed % 2 && w.faulty.made_up_count > w.seed % 4)))
			relent();
	}
	return true;
}

/* A while longer: the device does whatever it still can do. */
static bool linger(void)
{
	for (uint32_t i = 0; i < 20; i++) {
		w.power.now_ns += 1 + rand_below(&w.rand, 20 * NS_PER_MS);
		if (!w.power.off)
			nvme_faulty_run(&w.faulty);
	}
	for (uint32_t i = 0; i < SLOTS; i++)
		if (w.slot[i].state == IDLE && !untouched(&w.slot[i]))
			return false;
	return true;
}

/* ---- the end
 * ------------------------------------------------------------------------------------- */

/* Making and closing a drive waits for it; here it is always done. */
int nanosleep(const struct timespec *wanted, struct timespec *left)
{
	(void)wanted;
	(void)left;
	return 0;
}

static bool judge(void)
{
	enum nvme_health health = nvme_drive_health(w.drive);
	struct nvme_io io = { .op = NVME_READ, .nblocks = 1, .iova = w.iova };
	struct nvme_drive_counts counts;

	nvme_drive_counts(w.drive, &counts);
	total.resets += counts.reset_count;
	total.restarts += counts.queue_restart_count;
	total.aborts += counts.abort_count;
	total.timeouts += counts.timeout_count;
	total.lies += w.faulty.made_up_count;
	total.dead += health == NVME_HEALTH_DEAD;
	if (w.taken != w.returned)
		return wrong("%llu I/Os were taken, %llu came back", (unsigned long long)w.taken,
			     (unsigned long long)w.returned);
	if (w.lost_some && health != NVME_HEALTH_READ_ONLY && health != NVME_HEALTH_DEAD)
		return wrong("it has lost writes, and goes on as if it had not");
	if (w.s.fatal && health != NVME_HEALTH_DEAD)
		return wrong("it is not dead, and should be");
	if (w.s.stays_away && health != NVME_HEALTH_AWAY && health != NVME_HEALTH_DEAD)
		return wrong("another drive is taken for it");
	if (health == NVME_HEALTH_GOOD && nvme_qpair_is_away(w.qp[0]))
		return wrong("it is back, and in the next trouble no I/O waits for it");
	if (w.s.harmless && health == NVME_HEALTH_DEAD)
		return wrong("it is dead, and need not be: %s", w.last_line);
	if (nvme_faulty_late_rings(&w.faulty))
		return wrong("a controller that was stopped is rung");
	if (w.s.invisible && w.s.trigger != DRIVE_NOTHING && counts.queue_restart_count)
		return wrong("queues do not work after a reset");
	if (w.s.invisible && w.failed_count)
		return wrong("%llu I/Os failed, and one reset was enough for the drive",
			     (unsigned long long)w.failed_count);
	if (!w.s.fatal && w.s.can_stop && w.s.can_rise && health == NVME_HEALTH_DEAD &&
	    counts.reset_count <= NVME_RESET_RECENT)
		return wrong("it was given up too early: %s", w.last_line);
	if (health == NVME_HEALTH_DEAD && !strstr(w.last_line, "given up"))
		return wrong("it is dead, and nobody says so: %s", w.last_line);
	if (w.quarantined && health != NVME_HEALTH_DEAD)
		return wrong("what was quarantined is used on");
	if (health == NVME_HEALTH_DEAD && !w.drive->reset.quarantine &&
	    nvme_faulty_lives(&w.faulty))
		return wrong("it is dead, and works on");
	for (uint32_t t = 0; health == NVME_HEALTH_DEAD && t < w.qpair_count; t++) {
		struct nvme_io *none[1];

		(void)!nvme_poll(w.qp[t], none, 1); /* it hears of it */
		if (nvme_submit(w.qp[t], &io) != -ENODEV)
			return wrong("a dead drive takes an I/O");
	}
	return linger();
}

/* (4): what the drive holds now, read by nobody's driver. */
static bool compare_image(void)
{
	const uint8_t *image = sim_drive_visible(w.sim);
	uint64_t words[NVME_BLOCK_SIZE / 8];

	for (uint32_t b = 0; b < BLOCKS; b++) {
		memcpy(words, image + (uint64_t)b * NVME_BLOCK_SIZE, sizeof(words));
		if (!block_fits(words, b, w.block[b].safe, w.block[b].high))
			return false;
	}
	return true;
}

static bool open_it(void)
{
	struct sim_drive_options options = { .power = &w.power,
					     .nblocks = BLOCKS,
					     .volatile_cache = w.cache,
					     .atomic_bytes = pick(2) ? 512 : 4096,
					     .mdts = 1 + pick(3),
					     .seed = rand_u64(&w.rand) };
	struct nvme_options how = { .qpair_count_max = QPAIRS_MAX, .io_timeout_ns = TIMEOUT_NS };
	char err_text[NVME_ERR_TEXT];
	int err = sim_drive_create(&w.sim, &options);

	ASSERT(!err);
	err = nvme_faulty_open(&w.faulty, w.sim, w.dma, &how, rand_u64(&w.rand), &w.drive,
			       err_text);
	if (err)
		return wrong("open: %s", err_text);
	for (uint32_t t = 0; t < w.qpair_count; t++) {
		err = nvme_qpair_create(w.drive, 8u << pick(3), &w.qp[t]);
		if (err)
			return wrong("queue pair: %s", strerror(-err));
	}
	nvme_faulty_autonomous(&w.faulty, true);
	return true;
}

static void close_it(void)
{
	nvme_faulty_autonomous(&w.faulty, false);
	w.faulty.faults.stuck_ready = false; /* closing waits for it, in real time */
	for (uint32_t t = 0; t < w.qpair_count; t++) {
		struct nvme_io *done[8];

		if (!w.qp[t])
			continue;
		nvme_qpair_stop(w.qp[t]);
		while (nvme_poll(w.qp[t], done, 8))
			;
		nvme_qpair_destroy(w.qp[t]);
	}
	if (w.drive)
		nvme_close(w.drive);
}

static bool run_seed(uint64_t seed)
{
	uint8_t *memory = w.memory;
	bool good;

	memset(&w, 0, sizeof(w));
	w.seed = seed;
	w.memory = memory;
	rand_seed(&w.rand, seed);
	sim_power_init(&w.power);
	ASSERT(nvme_dma_create(&w.dma) == 0);
	ASSERT(nvme_dma_map(w.dma, w.memory, SLOTS * BUFFER_BYTES, &w.iova) == 0);
	w.qpair_count = 1 + pick(QPAIRS_MAX);
	w.wanted = 50 + pick(300);
	w.cache = pick(2);
	for (uint32_t i = 0; i < SLOTS; i++) {
		w.slot[i].words = (uint64_t *)(void *)(w.memory + (uint64_t)i * BUFFER_BYTES);
		poison_buffer(&w.slot[i]);
	}
	drive_scenario_pick(&w.s, &w.rand);
	if (w.s.trigger == DRIVE_LATE)
		w.s.sim.dawdle_ns = dawdle_ns;
	total.by_trigger[w.s.trigger]++;
	if (total.verbose)
		printf("seed %llu: %s%s%s, %u queue pairs\n", (unsigned long long)seed,
		       drive_trigger_name[w.s.trigger], w.s.can_stop ? "" : ", cannot be stopped",
		       w.s.can_rise ? "" : ", does not start again", w.qpair_count);
	good = open_it() && run_it() && judge();
	close_it();
	good = good && compare_image();
	sim_drive_destroy(w.sim);
	nvme_dma_unmap(w.dma, w.iova, SLOTS * BUFFER_BYTES);
	nvme_dma_destroy(w.dma);
	total.taken += w.taken;
	total.returned += w.returned;
	total.retried += w.retried;
	total.failed += w.failed_count;
	total.quarantined += w.quarantined;
	if (!good)
		printf("not ok seed %llu (%s): %s\n  again: make sim SEED=%llu\n",
		       (unsigned long long)seed, drive_trigger_name[w.s.trigger], w.why,
		       (unsigned long long)seed);
	return good;
}

static void arguments(int argc, char **argv)
{
	const char *length = getenv("TEST_LENGTH");

	total.seed = 1;
	total.runs = length && strcmp(length, "proof") == 0  ? 100000
		     : length && strcmp(length, "long") == 0 ? 20000
							     : sim_args_few(10000, 4);
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
			total.seed = strtoull(argv[++i], NULL, 0);
			total.runs = 1;
			total.verbose = true;
		} else if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc) {
			total.runs = strtoull(argv[++i], NULL, 0);
			total.verbose = false;
		} else {
			fprintf(stderr, "usage: drive [--seed N] [--runs N]\n");
			exit(2);
		}
	}
}

int main(int argc, char **argv)
{
	uint64_t begin_ns = clock_now_ns();

	setvbuf(stdout, NULL, _IOLBF, 0);
	arguments(argc, argv);
	ASSERT(SEAL_SANITIZED || seal_works());
	w.memory = mmap(NULL, SLOTS * BUFFER_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT(w.memory != MAP_FAILED);
	for (uint32_t i = 0; i < ARRAY_LEN(poison); i++)
		poison[i] = 0xdeadbeef00000000u ^ i;
	for (uint64_t i = 0; i < total.runs; i++)
		if (!run_seed(total.seed + i))
			return 1;
	printf("ok %llu runs from seed %llu: %llu I/Os taken, %llu came back, once each; %llu "
	       "retried, %llu failed, %llu quarantined; %llu timeouts, %llu aborted, %llu queue "
	       "pairs made anew, %llu resets, %llu made-up completions, %llu drives given up; "
	       "%.0f s\n",
	       (unsigned long long)total.runs, (unsigned long long)total.seed,
	       (unsigned long long)total.taken, (unsigned long long)total.returned,
	       (unsigned long long)total.retried, (unsigned long long)total.failed,
	       (unsigned long long)total.quarantined, (unsigned long long)total.timeouts,
	       (unsigned long long)total.aborts, (unsigned long long)total.restarts,
	       (unsigned long long)total.resets, (unsigned long long)total.lies,
	       (unsigned long long)total.dead, (double)(clock_now_ns() - begin_ns) / 1e9);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/sim/sim_world.h"

#include "appliance/core/app_op.h"
#include "test/sim/sim_drives.h"
#include "base/num.h"
#include "meta/plans/meta_plan.h"
#include "meta/engine/meta_lend.h"
#include "meta/ops/meta_gc.h"
#include "test/lib/sim_nvme_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEPS_MAX 2000000u /* of one wait: what takes longer hangs */
#define SETTLED   8u       /* turns with nothing to do: nothing comes any more */
#define ANY_LANE  UINT32_MAX
#define STRETCH   24u
#define WALL_NS   1700000000000000000ull

uint64_t sim_world_made;

static const struct fab_key key = { .id = "sim", .secret = { 1, 2, 3 } };

static void core_cfg(const struct sim_world *w, uint32_t index, struct app_core_cfg *cfg)
{
	*cfg = (struct app_core_cfg){
		.dma = w->dma,
		.drive = (struct nvme_drive **)(uintptr_t)w->drive,
		.ndrives = w->places,
		.srv = w->srv[index],
		.cores = w->cores,
		.index = index,
		.cache_bytes = w->cfg.cache_bytes,
		.spare_percent = (uint32_t)(w->cfg.seed % 4 * 4), /* 0, 4, 8, 12 */
		.early_pages = (uint32_t)(w->cfg.seed % 3 * 3),   /* 0, 3, 6 */
		.staging_bytes = w->cfg.staging_bytes ? w->cfg.staging_bytes : 2u << 20,
		.queue_max = w->cfg.queue_max,
		.scrub_rate = w->cfg.scrub_rate,
		.hedge_reads = w->cfg.hedge_reads,
		.hedge_floor_ns = w->cfg.hedge_floor_ns,
		.spread_at = w->cfg.seed % 2 ? 3 : 0, /* names; 0: more than there are */
		.lend_after = w->cfg.lend_after,
		.ops_max = w->cfg.ops_max,
		.batch_in_flight = 8,
		.open_puts_max = 4,
		.opens_max = 64,
		.queue_depth = SIM_QUEUE_DEPTH,
		.nshards = w->cfg.nshards,
		.copies = w->cfg.copies,
		.fold = w->cfg.fold,
		.secret = w->cfg.seed,
		.uuid = { 's', 'i', 'm', (uint8_t)w->cfg.seed, (uint8_t)(w->cfg.seed >> 8),
			  (uint8_t)(w->cfg.seed >> 32) },
		.wall_ns = WALL_NS,
		.patience_ns = w->cfg.patient ? UINT64_MAX / 2 : 0,
		.memory = w->memory[index],
		.memory_iova = w->memory_iova[index],
	};
}

static const uint64_t *cuts_so_far;

static void tell_cuts(int signal)
{
	(void)signal;
	printf("# an assertion, after %llu cuts\n", (unsigned long long)*cuts_so_far);
}

void sim_world_tell_cuts(const uint64_t *cuts)
{
	cuts_so_far = cuts;
	signal(SIGABRT, tell_cuts); /* returns, and abort() goes on */
}

void sim_world_create(struct sim_world *w, const struct sim_world_cfg *cfg)
{
	const char *cores = getenv("APP_CORES");

	memset(w, 0, sizeof(*w));
	w->cfg = *cfg;
	w->ncores = cores ? (uint32_t)atoi(cores) : max_u32(cfg->ncores, 1);
	ASSERT(w->ncores > 0 && w->ncores <= SIM_CORES_MAX);
	rand_seed(&w->order, cfg->seed ^ 0xc04e5);
	sim_power_init(&w->power);
	w->sims = cfg->ndrives + cfg->spares;
	ASSERT(w->sims <= SIM_DRIVES_MAX);
	for (uint32_t i = 0; i < w->sims; i++) {
		struct sim_drive_options options = {
			.power = &w->power,
			.nblocks = cfg->nblocks,
			.volatile_cache = cfg->volatile_cache,
			.atomic_bytes = cfg->atomic_bytes,
			.cut_garbles = cfg->cut_garbles,
			.frees = !cfg->keeps_all,
			.seed = cfg->seed + i,
		};

		ASSERT(sim_drive_create(&w->sim[i], &options) == 0);
		w->listed[i] = i < cfg->ndrives;
	}
	if (cfg->address || cfg->lan)
		snprintf(w->address, sizeof(w->address), "%s",
			 cfg->lan ? cfg->lan->address : cfg->address);
	else
		snprintf(w->address, sizeof(w->address), "shm:/tmp/weka-sim.%d.%p", (int)getpid(),
			 (void *)w);
}

static bool step(struct sim_world *w, uint32_t index)
{
	return app_core_step(w->each[index], w->power.now_ns, WALL_NS + w->power.now_ns);
}

static void as(struct sim_world *w, bool client)
{
	if (w->net)
		w->cfg.lan->as(w, client);
}

/* Steps cores and control until the clients' requests have ended and nothing is left to do. */
static void come_to_rest(struct sim_world *w)
{
	uint32_t idle = 0;

	as(w, false);
	if (w->core)
		w->core->cfg.patience_ns = 0;
	for (int i = 0; w->core && i < 200 && idle < SETTLED; i++) {
		bool more = false;

		for (uint32_t c = 0; c < w->ncores && w->each[c]; c++)
			more |= step(w, c);
		more |= app_control_step(w->srv[0], w->dma, w->power.now_ns);
		idle = more ? 0 : idle + 1;
		w->power.now_ns += 1000;
		if (w->cfg.lan)
			w->cfg.lan->time(w);
	}
}

static void count_made(const struct app_core *core)
{
	struct app_core_stat stat;

	app_core_stat(core, &stat);
	sim_world_made += stat.made;
}

/* Ends the clients first, whose requests fail if the power is off; then the cores. */
static void down(struct sim_world *w, bool told)
{
	if (w->net && w->srv[0])
		w->cfg.lan->down(w, told);
	if (w->conn[0])
		sim_world_disconnect(w);
	come_to_rest(w);
	w->serving = false;
	for (uint32_t c = 0; c < w->ncores && w->each[c]; c++)
		app_core_abandon(w->each[c]);
	for (uint32_t c = 0; c < w->ncores; c++) {
		if (w->each[c])
			count_made(w->each[c]);
		app_core_destroy(w->each[c]);
		w->each[c] = NULL;
	}
	w->core = NULL;
	sim_drives_down(w);
	app_cores_destroy(w->cores);
	w->cores = NULL;
	for (uint32_t c = w->ncores; c-- > 0;) {
		if (w->srv[c])
			fab_server_destroy(w->srv[c]);
		w->srv[c] = NULL;
	}
	for (uint32_t i = 0; i < SIM_DRIVES_MAX; i++) {
		if (w->drive[i])
			nvme_close(w->drive[i]);
		w->drive[i] = NULL;
	}
	if (w->dma)
		nvme_dma_destroy(w->dma);
	w->dma = NULL;
	if (w->net)
		w->cfg.lan->end(w);
}

void sim_world_destroy(struct sim_world *w)
{
	down(w, false);
	for (uint32_t i = 0; i < w->sims; i++)
		sim_drive_destroy(w->sim[i]);
	for (uint32_t c = 0; c < w->ncores; c++) {
		free(w->memory[c]);
		free(w->pool[c]);
	}
}

static uint32_t count_of(const struct list *l)
{
	const struct list *at;
	uint32_t n = 0;

	list_for_each (at, l)
		n++;
	return n;
}

/* Zones that became free in this turn go to the front.  A mount begins anywhere: no two alike. */
static void hurry_zones(struct sim_world *w)
{
	struct meta__zones *z = app_core_meta(w->core)->zones;

	for (uint32_t d = 0; z->zone && d < z->geo.ndrives; d++) {
		uint32_t n = count_of(&z->free[d]);

		if (!w->free_last[d] && n > 0)
			n = (uint32_t)((w->power.write_count + w->cfg.seed) * 2654435761u) % n;

		for (; n > 0 && z->free[d].prev != w->free_last[d]; n--) {
			struct list *l = z->free[d].prev;

			list_del(l);
			list_push_front(&z->free[d], l);
		}
		w->free_last[d] = z->free[d].prev;
	}
}

/* In any order; now and then one is late. */
static bool step_all(struct sim_world *w)
{
	uint32_t order[SIM_CORES_MAX];
	bool more = false;

	if (w->ncores == 1)
		return step(w, 0);
	for (uint32_t i = 0; i < w->ncores; i++) {
		uint32_t at = (uint32_t)rand_below(&w->order, i + 1);

		order[i] = order[at];
		order[at] = i;
	}
	for (uint32_t i = 0; i < w->ncores; i++) {
		if (rand_below(&w->order, 4) == 0)
			more = true;
		else
			more |= step(w, order[i]);
	}
	return more;
}

static bool turn(struct sim_world *w)
{
	bool more;
	uint64_t next;

	as(w, false);
	more = step_all(w);

	if (w->cfg.eager_reuse)
		hurry_zones(w);
	sim_drives_turn(w);
	if (w->srv[0])
		more |= app_control_step(w->srv[0], w->dma, w->power.now_ns);
	w->power.now_ns += 1000;
	if (w->cfg.lan)
		w->cfg.lan->time(w);
	if (more)
		return true;
	next = sim_power_next_ns(&w->power);
	if (w->cfg.lan)
		next = min_u64(next, w->cfg.lan->next(w));
	for (uint32_t c = 0; c < w->ncores; c++)
		next = min_u64(next, app_core_deadline(w->each[c]));
	if (w->cfg.leap_max_ns)
		next = min_u64(next, w->power.now_ns + w->cfg.leap_max_ns);
	if (next != UINT64_MAX && next > w->power.now_ns)
		w->power.now_ns = next;
	if (w->cfg.lan)
		w->cfg.lan->time(w);
	return next != UINT64_MAX;
}

static int make_server(struct sim_world *w)
{
	struct fab_server_cfg cfg = {
		.key = key,
		.limits = { .credits = max_u32(w->cfg.credits, SIM_CALLS_MAX),
			    .long_bodies = max_u32(w->cfg.long_bodies, 1),
			    .batch_max = 64,
			    .window_max_bytes = max_u32(w->cfg.window_max_bytes, SIM_WINDOW),
			    .pool_max_bytes = 4u << 20 },
		.core_count = w->ncores,
		.sessions_max = w->cfg.sessions_max ? w->cfg.sessions_max : 2 * w->ncores,
		.pools_max_bytes = w->ncores * (uint64_t)(8u << 20),
	};
	int err = fab_server_create(&w->srv[0], &cfg);

	for (uint32_t c = 1; c < w->ncores && !err; c++)
		err = fab_server_add(w->srv[0], &w->srv[c]);
	if (!err)
		err = fab_server_listen(w->srv[0], w->address, w->why);
	if (!err && w->cfg.address_too)
		err = fab_server_listen(w->srv[0], w->cfg.address_too, w->why);
	return err;
}

static int make_core(struct sim_world *w, uint32_t index, enum app_boot boot)
{
	struct app_core_cfg cfg;
	int err;

	core_cfg(w, index, &cfg);
	if (app_core_memory_needed(&cfg) > w->memory_bytes[index]) {
		free(w->memory[index]); /* of fewer drives */
		w->memory_bytes[index] = align_up(app_core_memory_needed(&cfg), 2u << 20);
		w->memory[index] = aligned_alloc(2u << 20, w->memory_bytes[index]);
		ASSERT(w->memory[index]);
	}
	err = nvme_dma_map(w->dma, w->memory[index], w->memory_bytes[index],
			   &w->memory_iova[index]);
	ASSERT(!err);
	core_cfg(w, index, &cfg);
	cfg.boot = boot;
	return app_core_create(&w->each[index], &cfg, w->why);
}

/* Returns the first error of a core; -EAGAIN while a core is still starting; or 0. */
static int boot_status(const struct sim_world *w)
{
	int err = 0;

	for (uint32_t c = 0; c < w->ncores && (!err || err == -EAGAIN); c++) {
		int of_it = app_core_boot_status(w->each[c]);

		err = of_it ? of_it : err;
	}
	return err;
}

/* From calls of others to none, early; and shards are lent after a few changes in a row. */
static void easily_shared(struct meta *m, uint64_t seed)
{
	m->share->open_after = 1 + (uint32_t)(seed % 3) * 4;
	m->lend->after = seed % 2 ? 1 : 1 + (uint32_t)(seed / 3 % 3) * 2;
}

int sim_world_up(struct sim_world *w, enum app_boot boot)
{
	uint32_t steps = 0;
	int err;

	ASSERT(!w->core);
	memset(w->free_last, 0, sizeof(w->free_last));
	sim_power_on(&w->power);
	if (w->cfg.lan)
		w->cfg.lan->up(w);
	ASSERT(nvme_dma_create(&w->dma) == 0);
	w->places = w->cfg.ndrives;
	for (uint32_t i = 0; w->sims == w->places && i < w->places; i++)
		if (!w->pulled[i])
			sim_drive_open(w->sim[i], w->dma, &w->drive[i]);
	err = w->sims > w->places ? sim_drives_open(w) : 0;
	if (!err)
		err = make_server(w);
	if (err)
		return err;
	ASSERT(app_cores_create(&w->cores, w->ncores, w->cfg.ops_max) == 0);
	for (uint32_t c = 0; c < w->ncores; c++) {
		err = make_core(w, c, boot);
		w->core = w->each[0];
		if (err)
			return err;
	}
	if (w->ncores > 1) /* from calls of others to none, early */
		easily_shared(app_core_meta(w->core), w->cfg.seed);
	while ((err = boot_status(w)) == -EAGAIN) {
		if (w->power.off)
			return -ECANCELED;
		(void)turn(w);
		if (w->booting && !w->booting(w))
			return -EINTR;
		ASSERT(steps++ < STEPS_MAX);
	}
	if (err)
		snprintf(w->why, sizeof(w->why), "%s", app_core_error(w->core));
	w->serving = !err;
	return w->power.off ? -ECANCELED : err;
}

int sim_world_begin(struct sim_world *w, enum app_boot boot)
{
	int err;

	w->why[0] = '\0';
	err = sim_world_up(w, boot);
	if (!err)
		err = sim_world_connect(w);
	if (err && !w->why[0])
		snprintf(w->why, sizeof(w->why), "%s", strerror(-err));
	return err;
}

void sim_world_faults(struct sim_world *w, const struct sim_faults *faults)
{
	for (uint32_t i = 0; i < w->sims; i++)
		sim_drive_faults(w->sim[i], faults);
}

static void describe_list(const struct meta *m, const char *name, struct list *l)
{
	struct list *at;

	list_for_each (at, l) {
		const struct meta_op *op = list_entry(at, struct meta_op, link);

		printf("# %s: type %d, %u reruns%s\n", name, op->type, op->reruns,
		       m->ops->alone == op ? ", alone" : "");
	}
}

void sim_world_describe(const struct sim_world *w)
{
	struct meta *m = app_core_meta(w->core);
	const struct meta__zones *z = m->zones;

	printf("# zones: %u free (data leaves %u, names %u), %u coming, %sleaving, %u of pages, "
	       "%u of the log; room for %llu pages, %llu live\n",
	       z->free_total, meta__zone_reserve(m, true), meta__zone_reserve(m, false), z->coming,
	       list_empty(&z->leaving) ? "none " : "", z->page_zones, z->log_count,
	       (unsigned long long)meta__pages_ahead(z), (unsigned long long)z->live_pages);
	printf("# collection %s, %s; checkpoint %s; room for %u dirty pages; read epochs %llu to "
	       "%llu; failed %d (%s)\n",
	       meta__collect_hopes(m) ? "hopes" : "hopes not",
	       meta__collect_busy(m) ? "busy" : "idle", meta__ckpt_running(m) ? "runs" : "idle",
	       meta__cache_room(m), (unsigned long long)z->epoch_oldest,
	       (unsigned long long)z->epoch, m->failed, meta_error(m));
	printf("# data zones: %u, %llu blocks live, %llu given; emptying %u, %u extents move, %llu "
	       "blocks to be placed, room for %llu; %llu moved; %s\n",
	       z->data_zones, (unsigned long long)z->live_blocks,
	       (unsigned long long)z->given_blocks, m->gc->victims, m->gc->moving,
	       (unsigned long long)z->claim, (unsigned long long)meta__moved_room(m),
	       (unsigned long long)m->gc->moved_blocks,
	       m->gc->gave_up ? "gave up" : "has not given up");
	describe_list(m, "ready", &m->ops->ready);
	describe_list(m, "stalled read", &m->ops->stalled[0]);
	describe_list(m, "stalled change", &m->ops->stalled[1]);
	describe_list(m, "waits for readers", &m->ops->leaving);
	describe_list(m, "held", &m->ops->held);
	describe_list(m, "trimming", &m->ops->trimming);
	describe_list(m, "durable", &m->ops->durable);
}

int sim_world_stop(struct sim_world *w)
{
	uint32_t steps = 0;
	int err;

	if (w->conn[0])
		sim_world_disconnect(w);
	for (uint32_t c = 0; c < w->ncores; c++)
		app_core_stop(w->each[c]);
	while ((err = app_core_stop_status(w->core)) == -EAGAIN) {
		if (w->power.off)
			return -ECANCELED;
		(void)turn(w);
		ASSERT(steps++ < STEPS_MAX);
	}
	if (err)
		snprintf(w->why, sizeof(w->why), "%s", app_core_error(w->core));
	else
		down(w, true);
	return w->power.off ? -ECANCELED : err;
}

void sim_world_cut(struct sim_world *w, uint64_t seed)
{
	if (!w->power.off)
		sim_power_cut(&w->power, seed);
	down(w, false);
}

/* A command that the reset finds under way is cut off; a write may have come as far as the cache.
 */
static void cut_off(struct sim_drive *sim, struct sim_pending *p, uint64_t dice)
{
	if (p->cmd->opcode == NVME_CMD_WRITE && !p->status && dice & 1)
		sim__write_done(sim, p->cmd, !sim->back.traits.volatile_cache);
	p->status = NVME_SC_POWER_LOSS;
	p->due_ns = 0;
}

void sim_world_kill(struct sim_world *w, uint64_t seed)
{
	struct rand_state r;

	rand_seed(&r, seed);
	w->power.off = true; /* nothing more arrives */
	for (uint32_t d = 0; d < w->sims; d++)
		for (uint32_t i = 0; i < SIM_QUEUES; i++) {
			struct sim_queue *q = w->sim[d]->queue[i];

			for (uint32_t p = 0; q && p < q->pending_count; p++)
				cut_off(w->sim[d], &q->pending[p], rand_u64(&r));
		}
	down(w, true);
	w->power.off = false;
}

void sim_world_cut_copy(const struct sim_world *from, uint64_t seed, struct sim_world *to)
{
	ASSERT(!to->core && from->cfg.ndrives == to->cfg.ndrives && from->sims == to->sims);
	for (uint32_t i = 0; i < from->sims; i++)
		sim_drive_cut_copy(from->sim[i], seed, to->sim[i]);
	memcpy(to->pulled, from->pulled, sizeof(to->pulled));
	memcpy(to->listed, from->listed, sizeof(to->listed));
	memcpy(to->left_out, from->left_out, sizeof(to->left_out));
	to->joined = from->joined;
}

/* With a lan the client's own memory, which it keeps. */
static int add_pool(struct sim_world *w, uint32_t lane)
{
	const uint64_t size = SIM_CALLS_MAX * SIM_WINDOW;

	if (!w->cfg.lan)
		return fab_pool_add(w->conn[lane], size, &w->region[lane]);
	if (!w->pool[lane])
		w->pool[lane] = aligned_alloc(2u << 20, size);
	ASSERT(w->pool[lane]);
	return fab_pool_lend(w->conn[lane], w->pool[lane], size, -1, &w->region[lane]);
}

static int connect_lane(struct sim_world *w, uint32_t lane)
{
	struct fab_connect_cfg cfg = { .address = w->address, .key = key };
	const uint64_t id[2] = { w->cfg.seed, lane + 1 };
	struct fab_conn **conn = &w->conn[lane];
	struct fab_region **region = &w->region[lane];
	int err;

	if (w->cfg.remember)
		memcpy(cfg.client_id, id, sizeof(cfg.client_id));
	as(w, true);
	err = fab_connect(conn, &cfg, w->power.now_ns);
	for (uint32_t steps = 0;
	     !err && (err = fab_connect_step(*conn, w->power.now_ns)) == -EINPROGRESS; steps++) {
		ASSERT(steps < STEPS_MAX);
		(void)turn(w);
		as(w, true);
		err = 0;
	}
	if (!err)
		err = add_pool(w, lane);
	for (uint32_t steps = 0; !err && (err = fab_region_status(*region)) == -EINPROGRESS;
	     steps++) {
		struct fab_call *none[1];

		ASSERT(steps < STEPS_MAX);
		fab_flush(*conn);
		(void)turn(w);
		as(w, true);
		(void)!fab_poll(*conn, w->power.now_ns, none, 1);
		err = 0;
	}
	if (w->power.off)
		return -ECANCELED;
	if (err) {
		snprintf(w->why, sizeof(w->why), "connect: %s: %s", strerror(-err),
			 fab_conn_error(*conn));
		return err;
	}
	return 0;
}

/* No leaps: the client, which is about to speak, is not among those asked for a deadline. */
static int connect_lanes(struct sim_world *w)
{
	const uint64_t leap_max_ns = w->cfg.leap_max_ns;
	int err = 0;

	w->cfg.leap_max_ns = 1000;
	for (uint32_t lane = 0; lane < w->ncores && !err; lane++)
		err = connect_lane(w, lane);
	w->cfg.leap_max_ns = leap_max_ns;
	return err;
}

int sim_world_connect(struct sim_world *w)
{
	int err = connect_lanes(w);

	if (err)
		return err;
	for (uint32_t i = 0; i < SIM_CALLS_MAX; i++) {
		struct sim_call *c = &w->calls[i];

		c->in_flight = false;
		c->lane = w->ncores - 1 - i % w->ncores; /* one alone is not where the store is */
		c->window = (uint8_t *)fab_region_memory(w->region[c->lane]) + i * SIM_WINDOW;
	}
	return 0;
}

uint32_t sim_world_step(struct sim_world *w, struct sim_call **done, uint32_t done_max)
{
	struct fab_call *calls[SIM_CALLS_MAX];
	uint32_t count = 0;

	as(w, true);
	for (uint32_t lane = 0; lane < w->ncores; lane++)
		fab_flush(w->conn[lane]);
	(void)turn(w);
	as(w, true);
	done_max = min_u32(done_max, SIM_CALLS_MAX);
	for (uint32_t lane = 0; lane < w->ncores && count < done_max; lane++)
		count += fab_poll(w->conn[lane], w->power.now_ns, calls + count, done_max - count);
	for (uint32_t i = 0; i < count; i++) {
		done[i] = container_of(calls[i], struct sim_call, call);
		ASSERT(done[i]->in_flight);
	}
	return count;
}

void sim_world_turn(struct sim_world *w)
{
	(void)turn(w);
}

void sim_world_disconnect(struct sim_world *w)
{
	as(w, true);
	for (uint32_t lane = 0; lane < w->ncores; lane++) {
		if (w->conn[lane])
			fab_close(w->conn[lane]);
		w->conn[lane] = NULL;
	}
}

/* In every second seed most calls come by one core for a while, so that shards are lent to it. */
struct sim_call *sim_world_call(struct sim_world *w)
{
	const uint32_t lane = w->called++ / STRETCH % w->ncores;
	struct sim_call *c = w->cfg.seed % 2 ? sim_world_call_on(w, lane) : NULL;

	return c ? c : sim_world_call_on(w, ANY_LANE);
}

struct sim_call *sim_world_call_on(struct sim_world *w, uint32_t lane)
{
	for (uint32_t i = 0; i < SIM_CALLS_MAX; i++) {
		struct sim_call *c = &w->calls[i];

		if (c->in_flight || (lane != ANY_LANE && c->lane != lane))
			continue;
		memset(&c->call, 0, sizeof(c->call));
		c->user = NULL;
		return c;
	}
	return NULL;
}

void sim_world_submit(struct sim_world *w, struct sim_call *c, bool with_window)
{
	if (with_window) {
		c->call.region = w->region[c->lane];
		c->call.window_offset = (uint64_t)(c - w->calls) * SIM_WINDOW;
		c->call.window_bytes = SIM_WINDOW;
	}
	as(w, true);
	ASSERT(fab_submit(w->conn[c->lane], &c->call) == 0);
	c->in_flight = true;
}

int sim_world_do(struct sim_world *w, struct sim_call *c, bool with_window)
{
	struct sim_call *done[1];

	sim_world_submit(w, c, with_window);
	for (uint32_t steps = 0; sim_world_step(w, done, 1) == 0; steps++) {
		ASSERT(steps < STEPS_MAX);
		if (w->power.off)
			return -ECANCELED;
	}
	ASSERT(done[0] == c);
	c->in_flight = false;
	return 0;
}

void sim_world_settle(struct sim_world *w)
{
	for (uint32_t steps = 0; meta__orphans_waiting(app_core_meta(w->core)); steps++) {
		ASSERT(steps < STEPS_MAX);
		(void)turn(w);
	}
}

int sim_world_check_all(struct sim_world *w, struct meta_check *found)
{
	struct meta *m = app_core_meta(w->core);
	uint32_t steps = 0;
	int err;

	meta_check_start(m, found);
	while ((err = meta_check_status(m)) == -EAGAIN) {
		(void)turn(w);
		ASSERT(steps++ < STEPS_MAX);
	}
	return err;
}

int sim_world_check(struct sim_world *w)
{
	struct meta_check found = { 0 };
	int err = sim_world_check_all(w, &found);

	if (err)
		snprintf(w->why, sizeof(w->why), "check: %llu problems: %s",
			 (unsigned long long)found.problems, found.first[0]);
	return err;
}

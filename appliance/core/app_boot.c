/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Creates and ends a core: its memory, its queue pairs, its store.  It may get more drives.
 *
 *   memory   |  staging, from a multiple of 4 MiB  |  the store's: page frames, log buffers  |
 *
 * Everything is taken here, in one order, and given back in reverse order; anything that the drives
 * could still touch is stopped first.
 */
#include "appliance/media/app_drives.h"
#include "appliance/media/app_missing.h"
#include "appliance/core/app_op.h"
#include "appliance/core/app_sum.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STAGING_ALIGN (2u << 20)
#define HUGE_BYTES    (2ull << 20)

/* Eight pages an operation: with fewer the store runs them one by one, again and again. */
#define OP_CACHE_BYTES (128ull << 10)

static void defaults(struct app_core_cfg *cfg)
{
	cfg->cache_bytes = cfg->cache_bytes ? cfg->cache_bytes : 256u << 20;
	cfg->staging_bytes = cfg->staging_bytes ? cfg->staging_bytes : 64u << 20;
	cfg->ops_max = cfg->ops_max ? cfg->ops_max : APP_OPS_DEFAULT;
	cfg->batch_in_flight = cfg->batch_in_flight ? cfg->batch_in_flight : 64;
	cfg->open_puts_max = cfg->open_puts_max ? cfg->open_puts_max : 256;
	cfg->opens_max = cfg->opens_max ? cfg->opens_max : 16384;
	cfg->queue_depth = cfg->queue_depth ? cfg->queue_depth : 256;
	cfg->nshards = cfg->nshards ? cfg->nshards : 64;
	cfg->queue_max = cfg->queue_max ? cfg->queue_max : APP_QUEUE_DEFAULT;
	ASSERT(cfg->ops_max > 0 && cfg->queue_depth > 1);
}

static void meta_conf_of(const struct app_core_cfg *cfg, struct meta_conf *out)
{
	ASSERT(cfg->ndrives <= META_DRIVES_MAX);
	*out = (struct meta_conf){
		.ndrives = cfg->ndrives,
		.cache_bytes = cfg->cache_bytes,
		.early_pages = cfg->early_pages,
		.ops_max = cfg->ops_max,
		.spare_percent = cfg->spare_percent,
		.spare_drives = cfg->spare_drives,
		.copies = cfg->copies,
		.fold = cfg->fold,
		.spread_at = cfg->spread_at,
		.lend_after = cfg->lend_after,
		.vouch_later = true,
		.holds_max = cfg->opens_max * (cfg->cores ? cfg->cores->count : 1),
		.nshards = cfg->nshards,
		.secret = cfg->secret,
		.wall_ns = cfg->wall_ns,
	};
	memcpy(out->uuid, cfg->uuid, sizeof(out->uuid));
	for (uint32_t i = 0; i < cfg->ndrives; i++) {
		/* Before they are opened: as large as any, so that only limits are judged. */
		out->drive[i] =
			(struct meta_drive_info){ .nblocks = 1u << 20, .volatile_cache = true };
		if (!cfg->drive)
			continue;
		out->drive[i] = (struct meta_drive_info){ 0 };
		if (cfg->missing && cfg->missing->drive == i) {
			out->drive[i].nblocks = cfg->missing->nblocks;
			out->drive[i].missing = true;
		}
		out->drive[i].missing |= cfg->told_missing >> i & 1;
		if (cfg->drive[i]) /* else the store has none there any more */
			app_drive_info(cfg->drive[i], cfg->drive_name ? cfg->drive_name[i] : "", 0,
				       cfg->deallocate, &out->drive[i]);
		if (cfg->domains && cfg->drive_name) /* also of one that is missing */
			out->drive[i].domain = app_domains_of(cfg->domains, cfg->drive_name[i]);
	}
}

const char *app_core_cfg_problem(const struct app_core_cfg *given)
{
	struct app_core_cfg cfg = *given;
	struct meta_conf conf;

	defaults(&cfg);
	if (cfg.ndrives == 0 || cfg.ndrives > META_DRIVES_MAX)
		return "from 1 to 64 drives are needed";
	if (cfg.cache_bytes < cfg.ops_max * OP_CACHE_BYTES)
		return "smaller than 128 KiB for each of ops_max";
	meta_conf_of(&cfg, &conf);
	return meta_conf_problem(&conf);
}

uint64_t app_core_memory_needed(const struct app_core_cfg *given)
{
	struct app_core_cfg cfg = *given;
	struct meta_conf conf;
	uint64_t store_bytes;

	defaults(&cfg);
	if (cfg.index > 0) /* another has the store */
		return align_up(cfg.staging_bytes, STAGING_ALIGN);
	meta_conf_of(&cfg, &conf);
	store_bytes = meta_memory_needed(&conf);
	return store_bytes ? align_up(cfg.staging_bytes, STAGING_ALIGN) + store_bytes : 0;
}

uint64_t app_core_holds_bytes(const struct app_core_cfg *given, uint32_t cores)
{
	struct app_core_cfg cfg = *given;
	struct app_core *core;

	ASSERT(cores > 0 && cores <= APP_CORES_MAX);
	defaults(&cfg);
	return cores * (sizeof(core->hold_bucket) + cfg.opens_max * sizeof(*core->hold_slot)) +
	       meta_holds_bytes(cfg.opens_max * cores);
}

uint64_t app_core_dma_needed(const struct app_core_cfg *cfg)
{
	ASSERT(cfg->ndrives <= META_DRIVES_MAX);
	/* A drive's queues and lists fit into a huge page. */
	return align_up(app_core_memory_needed(cfg), HUGE_BYTES) + cfg->ndrives * HUGE_BYTES;
}

/* ---- parts ------------------------------------------------------------------------------ */

static int take_memory(struct app_core *core, char *why)
{
	struct app_core_cfg *cfg = &core->cfg;
	int err;

	ASSERT(!core->memory && !core->arena);
	core->memory_bytes = app_core_memory_needed(cfg);
	ASSERT(core->memory_bytes % BLOCK_SIZE == 0);
	if (!core->memory_bytes)
		return -EINVAL;
	core->memory = cfg->memory;
	core->memory_iova = cfg->memory_iova;
	if (core->memory)
		return 0;
	if (nvme_dma_wants_files(cfg->dma))
		err = arena_create_file(core->memory_bytes, &core->arena);
	else
		err = arena_create(core->memory_bytes, &core->arena);
	if (err)
		return err;
	core->memory = arena_base(core->arena);
	core->memory_bytes = arena_size(core->arena);
	err = nvme_dma_map_file(cfg->dma, core->memory, core->memory_bytes, arena_fd(core->arena),
				0, &core->memory_iova);
	if (err) {
		snprintf(why, APP_WHY, "%s", nvme_dma_why(cfg->dma));
		arena_destroy(core->arena);
		core->arena = NULL;
		return err;
	}
	nvme_dma_near(cfg->dma, core->memory_iova, core->memory_bytes);
	return 0;
}

static void give_memory(struct app_core *core)
{
	ASSERT(!core->arena || core->memory);
	if (!core->arena)
		return;
	nvme_dma_unmap(core->cfg.dma, core->memory_iova, core->memory_bytes);
	arena_destroy(core->arena);
	core->arena = NULL;
}

static int take_slots(struct app_core *core)
{
	uint32_t ops = core->cfg.ops_max, hidden = core->cfg.open_puts_max;
	uint32_t holds = core->cfg.opens_max;

	ASSERT(core->op_free_count == 0 && core->hold_free_count == 0);
	core->ops = aligned_alloc(64, align_up(ops * sizeof(*core->ops), 64));
	core->op_free = calloc(ops, sizeof(struct app_op *));
	core->batch = calloc(ops, sizeof(*core->batch));
	core->parts_max =
		2 * ops + (uint32_t)min_u64(core->cfg.staging_bytes / APP_SLICE_MIN, 4096);
	core->part = calloc(core->parts_max, sizeof(*core->part));
	core->hidden_slot = calloc(hidden, sizeof(*core->hidden_slot));
	core->hold_slot = calloc(holds, sizeof(*core->hold_slot));
	core->key = calloc(FAB_KEYS_MAX + 1, sizeof(*core->key));
	core->session = calloc(APP_SESSIONS_MAX, sizeof(*core->session));
	if (!core->ops || !core->op_free || !core->batch || !core->part || !core->hidden_slot ||
	    !core->hold_slot || !core->session || !core->key)
		return -ENOMEM;
	memset(core->ops, 0, ops * sizeof(*core->ops)); /* present before the thread is sealed */
	for (uint32_t i = 0; i < ops; i++) {
		core->op_free[core->op_free_count++] = &core->ops[ops - 1 - i];
		list_init(&core->batch[i].link);
		list_push_back(&core->batch_free, &core->batch[i].link);
	}
	for (uint32_t i = 0; i < core->parts_max; i++) {
		list_init(&core->part[i].link);
		list_push_back(&core->part_free, &core->part[i].link);
	}
	for (uint32_t i = 0; i < hidden; i++) {
		list_init(&core->hidden_slot[i].link);
		list_push_back(&core->hidden_free, &core->hidden_slot[i].link);
		core->hidden_free_count++;
	}
	for (uint32_t i = 0; i < holds; i++) {
		list_init(&core->hold_slot[i].link);
		list_init(&core->hold_slot[i].late);
		list_push_back(&core->hold_free, &core->hold_slot[i].link);
		core->hold_free_count++;
	}
	ASSERT(core->op_free_count == ops && core->hold_free_count == holds);
	ASSERT(core->hidden_free_count == hidden);
	return 0;
}

static void give_slots(struct app_core *core)
{
	free(core->session);
	free(core->key);
	free(core->hold_slot);
	free(core->hidden_slot);
	free(core->part);
	free(core->batch);
	free(core->op_free);
	free(core->ops);
}

static int take_queues(struct app_core *core, char *why)
{
	struct nvme_info info;
	int err;

	ASSERT(core->nqps == 0 && core->cfg.ndrives <= META_DRIVES_MAX);
	for (uint32_t i = 0; i < core->cfg.ndrives; i++) {
		struct nvme_drive *drive = core->cfg.drive[i];

		core->nqps = i + 1;
		if (!drive)
			continue;
		nvme_drive_info(drive, &info);
		err = nvme_qpair_create(drive, min_u32(core->cfg.queue_depth, info.depth_max),
					&core->qp[i]);
		if (err) {
			snprintf(why, APP_WHY, "drive %u (%s): no queue pair for core %u: %s%s", i,
				 info.serial, core->index, strerror(-err),
				 err == -ENOSPC && core->index ? "; configure fewer cores" : "");
			return err;
		}
		if (nvme_qpair_io_blocks_max(core->qp[i]) < META_IO_BLOCKS_MAX &&
		    nvme_qpair_io_blocks_max(core->qp[i]) < info.nblocks) {
			snprintf(why, APP_WHY,
				 "queue_depth = %u is too small for drive %u (%s): it moves %u KiB "
				 "with one command, so 4 MiB need at least %llu (its queues have "
				 "%u entries at most)",
				 core->cfg.queue_depth, i, info.serial,
				 info.transfer_max_bytes / 1024,
				 (unsigned long long)div_up(META_IO_BLOCKS_MAX * NVME_BLOCK_SIZE,
							    info.transfer_max_bytes) +
					 1,
				 info.depth_max);
			return -EINVAL;
		}
	}
	return 0;
}

static void give_queues(struct app_core *core)
{
	while (core->nqps)
		if (core->qp[--core->nqps])
			nvme_qpair_destroy(core->qp[core->nqps]);
	ASSERT(core->nqps == 0);
}

/* The first core has the store, the others read it. */
static int take_meta(struct app_core *core)
{
	struct app_cores *cores = core->cores;
	int err;

	ASSERT(!core->meta && !core->reader);
	if (core->index > 0) {
		core->twins = meta_twins(cores->store);
		return meta_reader_create(&core->reader, cores->store, core->index);
	}
	err = meta_create(&core->meta, &core->meta_conf);
	if (!err)
		core->twins = meta_twins(core->meta);
	if (err || !cores)
		return err;
	cores->store = core->meta;
	return meta_share(core->meta);
}

static int take_store(struct app_core *core)
{
	uint64_t staging_bytes = align_up(core->cfg.staging_bytes, STAGING_ALIGN);
	int err;

	ASSERT(core->memory_bytes >= staging_bytes);
	if (core->index == 0)
		meta_conf_of(&core->cfg, &core->meta_conf);
	core->meta_conf.memory = core->memory + staging_bytes;
	core->meta_conf.memory_bytes = core->memory_bytes - staging_bytes;
	err = app_staging_init(&core->staging, core->memory, core->cfg.staging_bytes,
			       core->memory_iova);
	if (err)
		return err;
	err = take_meta(core);
	if (err)
		goto destroy_meta;
	err = app_media_init(&core->media, core->meta, core->qp, core->nqps, core->meta_conf.memory,
			     core->meta_conf.memory_bytes, core->memory_iova + staging_bytes);
	if (err)
		goto destroy_meta;
	core->media.faults = core->cfg.faults ? &core->cfg.faults[core->index] : NULL;
	err = app_sums_create(core);
	if (!err && core->meta && core->cfg.read_only)
		err = app_overlay_create(&core->media.overlay, core->cfg.overlay_bytes);
	if (err) {
		app_sums_destroy(core);
		app_media_fini(&core->media);
		goto destroy_meta;
	}
	return 0;

destroy_meta:
	if (core->meta)
		meta_destroy(core->meta);
	meta_reader_destroy(core->reader);
	app_staging_fini(&core->staging);
	return err;
}

static void give_store(struct app_core *core)
{
	ASSERT(core->media.in_flight == 0);
	app_sums_destroy(core);
	if (core->meta)
		meta_destroy(core->meta);
	meta_reader_destroy(core->reader);
	app_media_fini(&core->media);
	app_staging_fini(&core->staging);
}

/* Clients' writes are pulled into operations (checksums) and staging; other data leaves from there.
 */
static void announce_memory(struct app_core *core)
{
	ASSERT(core->staging.base && core->ops);
	if (!core->cfg.srv)
		return;
	fab_server_memory(core->cfg.srv, core->staging.base, core->cfg.staging_bytes);
	fab_server_memory(core->cfg.srv, core->ops, core->cfg.ops_max * sizeof(*core->ops));
}

static void init_lists(struct app_core *core)
{
	list_init(&core->batch_free);
	app_turns_init(&core->turns);
	list_init(&core->blocked);
	list_init(&core->late);
	list_init(&core->part_free);
	list_init(&core->session_free);
	list_init(&core->hidden_free);
	list_init(&core->hidden);
	list_init(&core->aborts);
	list_init(&core->hold_free);
	list_init(&core->hold_linger);
	for (uint32_t i = 0; i < APP_HOLD_BUCKETS; i++)
		list_init(&core->hold_bucket[i]);
	list_init(&core->ready);
	list_init(&core->staging_waiters);
	list_init(&core->part_waiters);
	list_init(&core->tight);
	list_init(&core->stalling);
	list_init(&core->block_waiters);
	list_init(&core->shut);
	list_init(&core->block_askers);
	list_init(&core->damage_askers);
	app_hedges_init(core);
	for (uint32_t i = 0; i < APP_FILE_BUCKETS; i++)
		list_init(&core->file[i]);
}

/* Writes the problem into `why`, and names the drive if one is too small. */
static void name_small_drive(const struct app_core_cfg *cfg, const char *problem, char *why)
{
	struct nvme_info info;

	snprintf(why, APP_WHY, "%s", problem);
	for (uint32_t i = 0; cfg->drive && i < cfg->ndrives; i++) {
		if (!cfg->drive[i])
			continue;
		nvme_drive_info(cfg->drive[i], &info);
		if (info.nblocks >= META_DRIVE_BYTES_MIN / NVME_BLOCK_SIZE)
			continue;
		snprintf(why, APP_WHY, "drive %u (%.200s): smaller than %u MiB", i,
			 cfg->drive_name ? cfg->drive_name[i] : info.serial,
			 META_DRIVE_BYTES_MIN >> 20);
		return;
	}
}

int app_core_create(struct app_core **out, const struct app_core_cfg *cfg, char *why)
{
	const char *problem = app_core_cfg_problem(cfg);
	struct app_core *core;
	int err;

	why[0] = '\0';
	if (problem) {
		name_small_drive(cfg, problem, why);
		return -EINVAL;
	}
	core = calloc(1, sizeof(*core));
	if (!core)
		goto no_memory;
	core->cfg = *cfg;
	defaults(&core->cfg);
	core->cores = cfg->cores && cfg->cores->count > 1 ? cfg->cores : NULL;
	core->index = core->cores ? cfg->index : 0;
	ASSERT(core->index < APP_CORES_MAX);
	core->io_max_bytes = (uint64_t)(core->cfg.ndrives + 1) * APP_CHUNK_BYTES;
	core->boot_status = -EAGAIN;
	core->stop_status = -EAGAIN;
	init_lists(core);
	if (core->cores)
		core->cores->suspects[core->index] = &core->suspects;
	err = take_memory(core, why);
	if (err)
		goto free_core;
	err = take_slots(core);
	if (err)
		goto give_slots;
	err = take_queues(core, why);
	if (err)
		goto give_queues;
	err = take_store(core);
	if (err)
		goto give_queues;
	err = app_scrub_create(core);
	if (err)
		goto give_store;
	announce_memory(core);
	if (core->meta && cfg->boot == APP_BOOT_FORMAT)
		meta_format_start(core->meta);
	else if (core->meta)
		meta_mount_start(core->meta);
	*out = core;
	return 0;

give_store:
	give_store(core);
give_queues:
	give_queues(core);
give_slots:
	give_slots(core);
	give_memory(core);
free_core:
	free(core);
	if (!why[0])
		snprintf(why, APP_WHY, "%s", strerror(-err));
	return err;
no_memory:
	snprintf(why, APP_WHY, "%s", strerror(ENOMEM));
	return -ENOMEM;
}

/* ---- a drive more ----------------------------------------------------------------------- */

void app_core_drive(struct app_core *core, uint32_t d, struct nvme_qpair *qp,
		    const struct meta_drive_info *info)
{
	ASSERT(d < META_DRIVES_MAX && d >= core->nqps);
	while (core->nqps < d) { /* drives that were gone before this start */
		core->qp[core->nqps++] = NULL;
		app_media_drive(&core->media, NULL);
	}
	core->qp[core->nqps++] = qp;
	core->cfg.ndrives = core->nqps;
	core->io_max_bytes = (uint64_t)(core->cfg.ndrives + 1) * APP_CHUNK_BYTES;
	app_media_drive(&core->media, qp);
	if (core->reader)
		meta_reader_drive(core->reader, d, info);
}

int app_core_drive_add(struct app_core *core, const struct meta_drive_info *info)
{
	ASSERT(!core->meta || core->index == 0);
	if (!core->meta || meta_drives(core->meta) + 1 != core->nqps)
		return -EBUSY;
	return meta_drive_add(core->meta, info);
}

int app_core_drive_status(const struct app_core *core)
{
	ASSERT(core->meta);
	return meta_drive_add_status(core->meta);
}

uint64_t app_core_drives_gone(const struct app_core *core)
{
	return core->meta ? meta_drives_gone(core->meta) : 0;
}

bool app_core_has_drive(const struct app_core *core, uint32_t d)
{
	return d < core->nqps && core->qp[d];
}

struct nvme_qpair *app_core_drive_leave(struct app_core *core, uint32_t d)
{
	struct nvme_qpair *qp = core->qp[d];

	ASSERT(d < core->nqps);
	if (!qp || nvme_qpair_in_flight(qp) || !app_media_leave(&core->media, d))
		return NULL;
	core->qp[d] = NULL; /* so cfg.drive[d] is not read */
	app_failing_forget(&core->failing, d);
	return qp;
}

/* ---- the end ---------------------------------------------------------------------------- */

void app_core_abandon(struct app_core *core)
{
	ASSERT(core->nqps <= META_DRIVES_MAX);
	for (uint32_t i = 0; i < core->nqps; i++)
		if (core->qp[i])
			nvme_qpair_stop(core->qp[i]);
	for (uint32_t i = 0; i < core->nqps; i++) {
		struct nvme_io *io[64];

		while (core->qp[i] && nvme_poll(core->qp[i], io, ARRAY_LEN(io)))
			;
	}
	core->media.in_flight = 0;
	core->staging.pages_used = 0;
	core->life = APP_STOPPED;
}

void app_core_destroy(struct app_core *core)
{
	if (!core)
		return;
	ASSERT(core->media.in_flight == 0);
	ASSERT(core->fresh_count == 0);
	for (uint32_t i = 0; i < core->cfg.ndrives && core->meta; i++)
		if (core->cfg.drive[i])
			app_witness_off(core->cfg.drive[i]);
	give_queues(core);
	app_scrub_destroy(core);
	give_store(core);
	give_slots(core);
	give_memory(core);
	free(core);
}

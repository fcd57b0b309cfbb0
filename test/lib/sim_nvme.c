/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A drive with faults: its commands.  sim_nvme_power.c decides which writes survive a power cut.
 *
 *   arrive --> pending, with a time when it is due and a status --> complete --> done
 *                 |
 *                 +-- power cut: kept, lost or torn; completes with an error
 */
#include "test/lib/sim_nvme_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LOST_NS 50000000u /* how often a lost command does its work again, at least */

static bool chance(struct sim_drive *sim, uint32_t ppm)
{
	return ppm && rand_below(&sim->rand, 1000000) < ppm;
}

static uint32_t usual_error(uint8_t opcode)
{
	switch (opcode) {
	case NVME_CMD_READ:
		return NVME_SC_UNRECOVERED_READ;
	case NVME_CMD_WRITE:
		return NVME_SC_WRITE_FAULT;
	default:
		return NVME_SC_INTERNAL;
	}
}

static uint32_t error_ppm(const struct sim_faults *faults, const struct nvme_soft_cmd *cmd)
{
	switch (cmd->opcode) {
	case NVME_CMD_READ:
		return cmd->offset_bytes < faults->read_error_from * 4096 ? 0
									  : faults->read_error_ppm;
	case NVME_CMD_WRITE:
		return faults->write_error_ppm;
	default:
		return faults->flush_error_ppm;
	}
}

/* Generic, command specific, media, path, vendor; known to the driver or not; DNR now and then. */
static uint32_t any_status(struct sim_drive *sim)
{
	static const uint16_t types[] = { 0x000, 0x100, 0x200, 0x300, 0x700 };
	uint32_t status = types[rand_below(&sim->rand, ARRAY_LEN(types))];

	status |= rand_below(&sim->rand, 2) ? 1 + (uint32_t)rand_below(&sim->rand, 255)
					    : 1 + (uint32_t)rand_below(&sim->rand, 16);
	if (status == NVME_SC_POWER_LOSS) /* that one is the power's own */
		status = NVME_SC_INTERNAL;
	return status | (rand_below(&sim->rand, 4) ? 0 : NVME_STATUS_NO_RETRY);
}

/* The status that `cmd` will have. */
static uint32_t decide(struct sim_drive *sim, const struct nvme_soft_cmd *cmd)
{
	struct sim_faults *faults = &sim->faults;

	if (faults->fail_nth && --faults->fail_nth == 0)
		return faults->fail_status ? faults->fail_status : usual_error(cmd->opcode);
	if (chance(sim, faults->status_ppm))
		return any_status(sim);
	return chance(sim, error_ppm(faults, cmd)) ? usual_error(cmd->opcode) : 0;
}

static void count(struct sim_drive *sim, const struct nvme_soft_cmd *cmd)
{
	sim->counts.read_count += cmd->opcode == NVME_CMD_READ;
	sim->counts.write_count += cmd->opcode == NVME_CMD_WRITE;
	sim->counts.fua_count += cmd->opcode == NVME_CMD_WRITE && cmd->fua;
	sim->counts.flush_count += cmd->opcode == NVME_CMD_FLUSH;
	sim->counts.free_count += cmd->opcode == NVME_CMD_DATASET;
}

static void arrive(struct sim_queue *q, struct nvme_soft_cmd *cmd)
{
	struct sim_drive *sim = q->sim;
	struct sim_power *power = sim->power;
	uint64_t span = sim->faults.delay_max_ns - sim->faults.delay_min_ns;
	struct sim_pending *p = &q->pending[q->pending_count++];

	ASSERT(q->pending_count <= q->depth);
	ASSERT(sim->faults.delay_max_ns >= sim->faults.delay_min_ns);
	*p = (struct sim_pending){ .cmd = cmd, .arrival = ++sim->arrival, .flush_seq = sim->seq };
	if (power->off) {
		p->status = NVME_SC_POWER_LOSS;
		return;
	}
	count(sim, cmd);
	p->status = decide(sim, cmd);
	p->lost = chance(sim, sim->faults.lose_ppm);
	p->drop = cmd->opcode == NVME_CMD_WRITE && chance(sim, sim->faults.drop_write_ppm);
	p->due_ns = power->now_ns + sim->faults.delay_min_ns;
	if (span)
		p->due_ns += rand_below(&sim->rand, span + 1);
	if (sim->faults.dawdle_ns)
		p->due_ns += sim->faults.dawdle_ns(sim->faults.dawdle_user, cmd);
	if (cmd->opcode != NVME_CMD_READ && ++power->write_count == power->cut_at)
		sim_power_cut(power, power->cut_seed);
}

static void read_done(struct sim_drive *sim, const struct nvme_soft_cmd *cmd)
{
	const uint8_t *from = sim->visible + cmd->offset_bytes;

	for (uint32_t i = 0; i < cmd->seg_count; i++) {
		memcpy(cmd->seg[i].iov_base, from, cmd->seg[i].iov_len);
		from += cmd->seg[i].iov_len;
	}
	if (chance(sim, sim->faults.flip_read_ppm)) {
		const struct iovec *seg = &cmd->seg[rand_below(&sim->rand, cmd->seg_count)];
		uint64_t bit = rand_below(&sim->rand, 8 * seg->iov_len);

		((uint8_t *)seg->iov_base)[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

static void complete(struct sim_drive *sim, const struct sim_pending *p)
{
	struct nvme_soft_cmd *cmd = p->cmd;
	bool durable = !sim->back.traits.volatile_cache || (cmd->fua && !sim->faults.ignore_fua);
	uint32_t status = p->status;

	if (!status && cmd->opcode == NVME_CMD_READ && sim__unreadable(sim, cmd))
		status = NVME_SC_UNRECOVERED_READ;
	cmd->status = (uint16_t)status;
	if (status) {
		sim->counts.error_count++;
		if (cmd->opcode == NVME_CMD_WRITE && status != NVME_SC_POWER_LOSS)
			sim__write_failed(sim, cmd);
		if (cmd->opcode == NVME_CMD_DATASET && status != NVME_SC_POWER_LOSS)
			sim__free(sim, cmd);
		return;
	}
	switch (cmd->opcode) {
	case NVME_CMD_READ:
		if (!chance(sim, sim->faults.skip_read_ppm))
			read_done(sim, cmd);
		break;
	case NVME_CMD_WRITE:
		if (!p->drop)
			sim__write_done(sim, cmd, durable);
		break;
	case NVME_CMD_DATASET:
		sim__free(sim, cmd);
		break;
	default:
		if (!sim->faults.ignore_flush)
			sim__flush(sim, p->flush_seq);
	}
}

/* The pending command that is due first, or NULL when none is due yet. */
static struct sim_pending *first_due(const struct sim_queue *q)
{
	struct sim_pending *best = NULL;

	for (uint32_t i = 0; i < q->pending_count; i++) {
		struct sim_pending *p = &q->pending[i];

		if (p->due_ns > q->sim->power->now_ns)
			continue;
		if (!best || p->due_ns < best->due_ns ||
		    (p->due_ns == best->due_ns && p->arrival < best->arrival))
			best = p;
	}
	return best;
}

static uint32_t sim_run(void *queue, struct nvme_soft_cmd **cmd, uint32_t cmd_count,
			struct nvme_soft_cmd **done, uint32_t done_max)
{
	struct sim_queue *q = queue;
	struct sim_pending *p;
	uint32_t done_count = 0;

	for (uint32_t i = 0; i < cmd_count; i++)
		arrive(q, cmd[i]);
	while (done_count < done_max && (p = first_due(q)) != NULL) {
		complete(q->sim, p);
		if (p->lost && p->status != NVME_SC_POWER_LOSS) {
			/* It reads or writes our memory for as long as nobody stops it. */
			p->due_ns = q->sim->power->now_ns + 1 + rand_below(&q->sim->rand, LOST_NS);
			continue;
		}
		done[done_count++] = p->cmd;
		*p = q->pending[--q->pending_count];
	}
	return done_count;
}

static bool sim_abort(void *queue, uint16_t cid)
{
	struct sim_queue *q = queue;

	for (uint32_t i = 0; i < q->pending_count; i++) {
		struct sim_pending *p = &q->pending[i];

		if (p->cmd->cid != cid || q->sim->faults.ignore_aborts)
			continue;
		p->status = NVME_SC_ABORT_REQUESTED;
		p->due_ns = q->sim->power->now_ns;
		p->lost = false;
		return true;
	}
	return false;
}

static int sim_queue_create(struct nvme_soft_back *back, uint32_t depth, struct nvme_dma *dma,
			    void **out)
{
	struct sim_drive *sim = container_of(back, struct sim_drive, back);
	struct sim_queue *q = calloc(1, sizeof(*q));
	uint32_t index = 0;

	(void)dma;
	ASSERT(q);
	q->pending = calloc(depth, sizeof(*q->pending));
	ASSERT(q->pending);
	q->sim = sim;
	q->depth = depth;
	while (index < SIM_QUEUES && sim->queue[index])
		index++;
	ASSERT(index < SIM_QUEUES);
	sim->queue[index] = q;
	*out = q;
	return 0;
}

static void sim_queue_destroy(void *queue)
{
	struct sim_queue *q = queue;

	for (uint32_t i = 0; i < SIM_QUEUES; i++) {
		if (q->sim->queue[i] == q)
			q->sim->queue[i] = NULL;
	}
	free(q->pending);
	free(q);
}

/* A clean shutdown writes the cache back. */
static void sim_shutdown(struct nvme_soft_back *back)
{
	struct sim_drive *sim = container_of(back, struct sim_drive, back);

	if (!sim->power->off)
		sim__flush(sim, sim->seq);
}

/* The controller is gone; the drive stays. */
static void sim_back_destroy(struct nvme_soft_back *back)
{
	container_of(back, struct sim_drive, back)->open = false;
}

int sim_drive_create(struct sim_drive **out, const struct sim_drive_options *options)
{
	struct sim_drive *sim = calloc(1, sizeof(*sim));
	uint32_t lba_shift = options->atomic_bytes == 512 ? 9 : NVME_BLOCK_SHIFT;
	uint64_t nunits;

	ASSERT(sim && options->nblocks > 0);
	sim->size_bytes = (uint64_t)options->nblocks * NVME_BLOCK_SIZE;
	sim->atomic_bytes = 1u << lba_shift;
	sim->visible = calloc(1, sim->size_bytes);
	sim->durable = calloc(1, sim->size_bytes);
	nunits = sim->size_bytes / sim->atomic_bytes;
	sim->durable_seq = calloc(nunits, sizeof(*sim->durable_seq));
	sim->copy_seq = calloc(nunits, sizeof(*sim->copy_seq));
	sim__image_new(sim);
	sim->visible_bad = calloc(nunits, sizeof(*sim->visible_bad));
	sim->durable_bad = calloc(nunits, sizeof(*sim->durable_bad));
	sim->freed = calloc(nunits, sizeof(*sim->freed));
	sim->cut_garbles = options->cut_garbles;
	if (!sim->visible || !sim->durable || !sim->durable_seq || !sim->visible_bad ||
	    !sim->durable_bad || !sim->copy_seq || !sim->freed) {
		sim_drive_destroy(sim);
		return -ENOMEM;
	}
	rand_seed(&sim->rand, options->seed);
	sim->back = (struct nvme_soft_back){
		.traits = { .nblocks = options->nblocks,
			    .lba_shift = lba_shift,
			    .atomic_lbas = 1,
			    .mdts = options->mdts ? options->mdts : 5,
			    .volatile_cache = options->volatile_cache,
			    .frees = options->frees,
			    .model = "simulated",
			    .serial = "sim" },
		.batch_bytes = UINT32_MAX,
		.queue_create = sim_queue_create,
		.queue_destroy = sim_queue_destroy,
		.run = sim_run,
		.abort = sim_abort,
		.shutdown = sim_shutdown,
		.destroy = sim_back_destroy,
	};
	sim_power_init(&sim->own_power);
	sim->power = options->power ? options->power : &sim->own_power;
	ASSERT(sim->power->drive_count < SIM_POWER_DRIVES);
	sim->power->drive[sim->power->drive_count++] = sim;
	*out = sim;
	return 0;
}

void sim_drive_destroy(struct sim_drive *sim)
{
	struct sim_power *power;
	uint32_t index = 0;

	if (!sim)
		return;
	ASSERT(!sim->open);
	power = sim->power;
	while (power && index < power->drive_count && power->drive[index] != sim)
		index++;
	if (power && index < power->drive_count)
		power->drive[index] = power->drive[--power->drive_count];
	free(sim->visible);
	free(sim->durable);
	free(sim->durable_seq);
	free(sim->copy_seq);
	free(sim->visible_bad);
	free(sim->durable_bad);
	free(sim->freed);
	free(sim->write);
	free(sim->log);
	free(sim);
}

void sim_drive_open(struct sim_drive *sim, struct nvme_dma *dma, struct nvme_drive **out)
{
	char err_text[NVME_ERR_TEXT];
	struct nvme_options options = { .qpair_count_max = SIM_QUEUES };
	int err;

	ASSERT(!sim->open && !sim->power->off);
	sim->open = true;
	err = nvme__open_soft(out, &sim->back, "sim", dma, &options, err_text, sizeof(err_text));
	ASSERT(err == 0);
}

struct nvme_soft_back *sim_drive_back(struct sim_drive *sim)
{
	return &sim->back;
}

void sim_drive_opens(struct sim_drive *sim)
{
	ASSERT(!sim->open && !sim->power->off);
	sim->open = true;
}

struct nvme_soft_traits *sim_drive_traits(struct sim_drive *sim)
{
	return &sim->back.traits;
}

void sim_drive_faults(struct sim_drive *sim, const struct sim_faults *faults)
{
	sim->faults = *faults;
}

struct sim_counts sim_drive_counts(const struct sim_drive *sim)
{
	return sim->counts;
}

void sim_nvme_lie(struct nvme_qpair *qp, uint16_t cid)
{
	struct nvme_soft_queue *q = ((struct nvme_soft *)qp->ctrl)->queue[qp->qid];

	q->owed_count++; /* nobody asked, so nothing was owed */
	nvme__soft_post(q, cid, NVME_SC_SUCCESS, 0);
}

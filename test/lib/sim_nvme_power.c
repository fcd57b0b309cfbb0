/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A drive's image under completed writes, flushes and power cuts.
 *
 *   visible   the bytes that reads see: all completed writes
 *   durable   the bytes that survive any power cut
 *   write[]   the difference: completed writes, oldest first, with their bytes in log
 *
 * Invariants, true between any two calls:
 *
 *  (1) visible and durable differ only in atomic units that some write[] names; so do
 *      visible_bad and durable_bad.
 *  (2) durable_seq[u] is the seq of the write that durable's unit u is from: an older write
 *      never lands on a newer one, however late the cache lets it go.
 */
#include "test/lib/sim_nvme_internal.h"

#include <stdlib.h>
#include <string.h>

enum fate { FATE_KEPT, FATE_LOST, FATE_TORN, FATE_GARBLED, FATES };

void sim_power_init(struct sim_power *power)
{
	memset(power, 0, sizeof(*power));
}

uint64_t sim_power_next_ns(const struct sim_power *power)
{
	uint64_t next_ns = UINT64_MAX;

	for (uint32_t d = 0; d < power->drive_count; d++) {
		for (uint32_t i = 0; i < SIM_QUEUES; i++) {
			const struct sim_queue *q = power->drive[d]->queue[i];

			for (uint32_t p = 0; q && p < q->pending_count; p++)
				next_ns = min_u64(next_ns, q->pending[p].due_ns);
		}
	}
	return next_ns;
}

void sim_power_cut_at(struct sim_power *power, uint64_t nth, uint64_t seed)
{
	power->cut_at = nth ? power->write_count + nth : 0;
	power->cut_seed = seed;
}

void sim_power_on(struct sim_power *power)
{
	power->off = false;
	power->cut_at = 0;
}

/* ---- writes ---------------------------------------------------------------------------- */

static void gather(uint8_t *to, const struct nvme_soft_cmd *cmd)
{
	for (uint32_t i = 0; i < cmd->seg_count; i++) {
		memcpy(to, cmd->seg[i].iov_base, cmd->seg[i].iov_len);
		to += cmd->seg[i].iov_len;
	}
}

/* (2) */
static void make_durable(struct sim_drive *sim, uint64_t offset_bytes, const uint8_t *from,
			 uint64_t seq)
{
	uint64_t unit = offset_bytes / sim->atomic_bytes;

	if (sim->durable_seq[unit] > seq)
		return;
	sim->durable_seq[unit] = seq;
	sim->durable_bad[unit] = false;
	sim->copy_seq[unit] = 0;
	sim->freed[unit] = false; /* also by a write that was on its way when the power failed */
	memcpy(sim->durable + offset_bytes, from, sim->atomic_bytes);
}

/* Garbage is left, that can be read or cannot. */
static void make_garbage(struct sim_drive *sim, struct rand_state *rand, uint64_t offset_bytes,
			 uint64_t seq)
{
	uint64_t garbage[NVME_BLOCK_SIZE / sizeof(uint64_t)];
	uint64_t unit = offset_bytes / sim->atomic_bytes;

	for (uint32_t i = 0; i < ARRAY_LEN(garbage); i++)
		garbage[i] = rand_u64(rand);
	make_durable(sim, offset_bytes, (const uint8_t *)garbage, seq);
	if (sim->durable_seq[unit] == seq)
		sim->durable_bad[unit] = rand_u64(rand) & 1;
}

static void see_written(struct sim_drive *sim, uint64_t offset_bytes, uint32_t size_bytes)
{
	memset(sim->visible_bad + offset_bytes / sim->atomic_bytes, 0,
	       size_bytes / sim->atomic_bytes * sizeof(*sim->visible_bad));
	memset(sim->copy_seq + offset_bytes / sim->atomic_bytes, 0,
	       size_bytes / sim->atomic_bytes * sizeof(*sim->copy_seq));
	memset(sim->freed + offset_bytes / sim->atomic_bytes, 0,
	       size_bytes / sim->atomic_bytes * sizeof(*sim->freed));
}

/* Makes the durable bytes visible again. */
static void see_durable(struct sim_drive *sim, uint64_t offset_bytes, uint64_t size_bytes)
{
	uint64_t unit = offset_bytes / sim->atomic_bytes;

	memcpy(sim->visible + offset_bytes, sim->durable + offset_bytes, size_bytes);
	memcpy(sim->visible_bad + unit, sim->durable_bad + unit,
	       size_bytes / sim->atomic_bytes * sizeof(*sim->visible_bad));
}

/* Nobody has promised what it holds: by the dice, garbage. */
static void forget_unit(struct sim_drive *sim, struct rand_state *rand, uint64_t unit, uint64_t seq)
{
	uint64_t at = unit * sim->atomic_bytes;

	if (rand_below(rand, 4) == 0)
		return;
	make_garbage(sim, rand, at, seq);
	if (sim->durable_seq[unit] == seq)
		sim->durable_bad[unit] = false; /* who wants errors there asks for them (DULBE) */
	see_durable(sim, at, sim->atomic_bytes);
}

void sim__free(struct sim_drive *sim, const struct nvme_soft_cmd *cmd)
{
	uint64_t first = cmd->offset_bytes / sim->atomic_bytes;

	sim->seq++;
	for (uint64_t u = first; u < first + cmd->freed_bytes / sim->atomic_bytes; u++) {
		sim->freed[u] = true;
		forget_unit(sim, &sim->rand, u, sim->seq);
	}
}

/* The power fails: what was deallocated, or was being so, is what it likes. */
static void cut_freed(const struct sim_drive *sim, struct rand_state *rand, struct sim_drive *into)
{
	for (uint64_t u = 0; sim->back.traits.frees && u < sim->size_bytes / sim->atomic_bytes; u++)
		if (sim->freed[u])
			forget_unit(into, rand, u, sim->seq);
	for (uint32_t i = 0; i < SIM_QUEUES; i++) {
		const struct sim_queue *q = sim->queue[i];

		for (uint32_t p = 0; q && p < q->pending_count; p++) {
			const struct nvme_soft_cmd *cmd = q->pending[p].cmd;
			uint64_t first = cmd->offset_bytes / sim->atomic_bytes;

			if (cmd->opcode != NVME_CMD_DATASET ||
			    q->pending[p].status == NVME_SC_POWER_LOSS)
				continue;
			for (uint64_t u = 0; u < cmd->freed_bytes / sim->atomic_bytes; u++)
				forget_unit(into, rand, first + u,
					    sim->seq + 1 + rand_below(rand, 1024));
		}
	}
}

bool sim__unreadable(const struct sim_drive *sim, const struct nvme_soft_cmd *cmd)
{
	for (uint32_t i = 0; i < cmd->size_bytes; i += sim->atomic_bytes)
		if (sim->visible_bad[(cmd->offset_bytes + i) / sim->atomic_bytes])
			return true;
	return false;
}

static uint8_t *log_room(struct sim_drive *sim, uint32_t size_bytes)
{
	if (sim->write_count == sim->write_max) {
		sim->write_max = sim->write_max ? 2 * sim->write_max : 64;
		sim->write = realloc(sim->write, sim->write_max * sizeof(*sim->write));
		ASSERT(sim->write);
	}
	if (sim->log_used + size_bytes > sim->log_max) {
		sim->log_max = 2 * (sim->log_used + size_bytes);
		sim->log = realloc(sim->log, sim->log_max);
		ASSERT(sim->log);
	}
	return sim->log + sim->log_used;
}

void sim__write_done(struct sim_drive *sim, const struct nvme_soft_cmd *cmd, bool durable)
{
	uint8_t *at = sim->visible + cmd->offset_bytes;

	gather(at, cmd);
	see_written(sim, cmd->offset_bytes, cmd->size_bytes);
	sim->seq++;
	if (durable) {
		for (uint32_t i = 0; i < cmd->size_bytes; i += sim->atomic_bytes)
			make_durable(sim, cmd->offset_bytes + i, at + i, sim->seq);
		return;
	}
	memcpy(log_room(sim, cmd->size_bytes), at, cmd->size_bytes);
	sim->write[sim->write_count++] = (struct sim_write){ .seq = sim->seq,
							     .offset_bytes = cmd->offset_bytes,
							     .log_at = sim->log_used,
							     .size_bytes = cmd->size_bytes };
	sim->log_used += cmd->size_bytes;
}

/* Some of its atomic units are written, for good or in the cache, some are not. */
void sim__write_failed(struct sim_drive *sim, const struct nvme_soft_cmd *cmd)
{
	uint8_t *new_bytes = malloc(cmd->size_bytes);
	uint8_t *at = sim->visible + cmd->offset_bytes;

	ASSERT(new_bytes);
	gather(new_bytes, cmd);
	sim->seq++;
	for (uint32_t i = 0; i < cmd->size_bytes; i += sim->atomic_bytes) {
		if (rand_u64(&sim->rand) & 1)
			continue;
		memcpy(at + i, new_bytes + i, sim->atomic_bytes);
		see_written(sim, cmd->offset_bytes + i, sim->atomic_bytes);
		make_durable(sim, cmd->offset_bytes + i, new_bytes + i, sim->seq);
	}
	free(new_bytes);
}

static void drop_oldest(struct sim_drive *sim, uint32_t count)
{
	uint64_t base = count < sim->write_count ? sim->write[count].log_at : sim->log_used;

	sim->write_count -= count;
	sim->log_used -= base;
	if (sim->write_count == 0)
		return;
	memmove(sim->write, sim->write + count, sim->write_count * sizeof(*sim->write));
	memmove(sim->log, sim->log + base, sim->log_used);
	for (uint32_t i = 0; i < sim->write_count; i++)
		sim->write[i].log_at -= base;
}

/* All writes up to `seq` are durable now. */
void sim__flush(struct sim_drive *sim, uint64_t seq)
{
	uint32_t flushed = 0;

	for (; flushed < sim->write_count && sim->write[flushed].seq <= seq; flushed++) {
		const struct sim_write *w = &sim->write[flushed];

		for (uint32_t i = 0; i < w->size_bytes; i += sim->atomic_bytes)
			make_durable(sim, w->offset_bytes + i, sim->log + w->log_at + i, w->seq);
	}
	drop_oldest(sim, flushed);
}

/* ---- power cuts --------------------------------------------------------------------------- */

/* Let `write` of `from` meet its fate in the image of `into`. */
static void meet_fate(struct rand_state *rand, struct sim_drive *into, uint64_t offset_bytes,
		      const uint8_t *bytes, uint32_t size_bytes, uint64_t seq)
{
	enum fate fate = (enum fate)rand_below(rand, into->cut_garbles ? FATES : FATE_GARBLED);

	for (uint32_t i = 0; i < size_bytes; i += into->atomic_bytes) {
		bool torn = fate == FATE_TORN || fate == FATE_GARBLED;
		bool kept = fate == FATE_KEPT || (torn && (rand_u64(rand) & 1));

		if (fate == FATE_GARBLED && (rand_u64(rand) & 1))
			make_garbage(into, rand, offset_bytes + i, seq);
		else if (kept)
			make_durable(into, offset_bytes + i, bytes + i, seq);
	}
}

static void cut_completed(const struct sim_drive *sim, struct rand_state *rand,
			  struct sim_drive *into)
{
	for (uint32_t i = 0; i < sim->write_count; i++) {
		const struct sim_write *w = &sim->write[i];

		meet_fate(rand, into, w->offset_bytes, sim->log + w->log_at, w->size_bytes, w->seq);
	}
}

/* Those in flight are newer than all that completed, and among themselves in any order. */
static void cut_in_flight(const struct sim_drive *sim, struct rand_state *rand,
			  struct sim_drive *into)
{
	for (uint32_t i = 0; i < SIM_QUEUES; i++) {
		const struct sim_queue *q = sim->queue[i];

		for (uint32_t p = 0; q && p < q->pending_count; p++) {
			const struct nvme_soft_cmd *cmd = q->pending[p].cmd;
			uint8_t *bytes;

			if (cmd->opcode != NVME_CMD_WRITE ||
			    q->pending[p].status == NVME_SC_POWER_LOSS)
				continue;
			bytes = malloc(cmd->size_bytes);
			ASSERT(bytes);
			gather(bytes, cmd);
			meet_fate(rand, into, cmd->offset_bytes, bytes, cmd->size_bytes,
				  sim->seq + 1 + rand_below(rand, 1024));
			free(bytes);
		}
	}
}

/* (1): bring visible back to durable where they may differ. */
static void forget_cache(struct sim_drive *sim)
{
	for (uint32_t i = 0; i < sim->write_count; i++) {
		const struct sim_write *w = &sim->write[i];

		see_durable(sim, w->offset_bytes, w->size_bytes);
	}
	sim->write_count = 0;
	sim->log_used = 0;
}

static void end_in_flight(struct sim_drive *sim)
{
	for (uint32_t i = 0; i < SIM_QUEUES; i++) {
		struct sim_queue *q = sim->queue[i];

		for (uint32_t p = 0; q && p < q->pending_count; p++) {
			const struct nvme_soft_cmd *cmd = q->pending[p].cmd;

			if (cmd->opcode == NVME_CMD_WRITE)
				see_durable(sim, cmd->offset_bytes, cmd->size_bytes);
			q->pending[p].status = NVME_SC_POWER_LOSS;
			q->pending[p].due_ns = 0;
		}
	}
}

/* One drive's share of the seed: the same for a cut and for a copy of its result. */
static struct rand_state rand_of(const struct sim_drive *sim, uint64_t seed)
{
	struct rand_state rand;
	uint32_t index = 0;

	while (index < sim->power->drive_count && sim->power->drive[index] != sim)
		index++;
	rand_seed(&rand, seed * SIM_POWER_DRIVES + index);
	return rand;
}

void sim_power_cut(struct sim_power *power, uint64_t seed)
{
	if (power->off)
		return;
	power->off = true;
	for (uint32_t i = 0; i < power->drive_count; i++) {
		struct sim_drive *sim = power->drive[i];
		struct rand_state rand = rand_of(sim, seed);

		cut_freed(sim, &rand, sim);
		cut_completed(sim, &rand, sim);
		cut_in_flight(sim, &rand, sim);
		end_in_flight(sim);
		forget_cache(sim);
		sim->seq += 1025; /* past those that were in flight */
	}
}

/* Copies all units that have changed on either side since the last copy; the first time all. */
static void copy_durable(const struct sim_drive *sim, struct sim_drive *into)
{
	if (into->copy_of != sim || into->copy_image != sim->image)
		memset(into->copy_seq, 0,
		       sim->size_bytes / sim->atomic_bytes * sizeof(*into->copy_seq));
	into->copy_of = sim;
	into->copy_image = sim->image;
	for (uint64_t unit = 0; unit < sim->size_bytes / sim->atomic_bytes; unit++) {
		uint64_t at = unit * sim->atomic_bytes;

		into->freed[unit] = sim->freed[unit];
		if (into->copy_seq[unit] == sim->durable_seq[unit] + 1)
			continue;
		memcpy(into->durable + at, sim->durable + at, sim->atomic_bytes);
		into->durable_seq[unit] = sim->durable_seq[unit];
		into->durable_bad[unit] = sim->durable_bad[unit];
		see_durable(into, at, sim->atomic_bytes);
		into->copy_seq[unit] = sim->durable_seq[unit] + 1;
	}
}

void sim_drive_cut_copy(const struct sim_drive *sim, uint64_t seed, struct sim_drive *into)
{
	struct rand_state rand = rand_of(sim, seed);

	ASSERT(into->size_bytes == sim->size_bytes && into->atomic_bytes == sim->atomic_bytes);
	ASSERT(!into->open && into != sim);
	copy_durable(sim, into);
	cut_freed(sim, &rand, into);
	cut_completed(sim, &rand, into);
	cut_in_flight(sim, &rand, into);
	into->seq = sim->seq + 1025;
	into->write_count = 0;
	into->log_used = 0;
	for (uint64_t unit = 0; unit < into->size_bytes / into->atomic_bytes; unit++)
		if (!into->copy_seq[unit]) /* what the cut has made of it */
			see_durable(into, unit * into->atomic_bytes, into->atomic_bytes);
}

/* ---- images --------------------------------------------------------------------------------- */

void sim__image_new(struct sim_drive *sim)
{
	static uint64_t images;

	sim->image = ++images;
	sim->copy_of = NULL;
}

const uint8_t *sim_drive_visible(const struct sim_drive *sim)
{
	return sim->visible;
}

const uint8_t *sim_drive_durable(const struct sim_drive *sim)
{
	return sim->durable;
}

uint64_t sim_drive_bytes(const struct sim_drive *sim)
{
	return sim->size_bytes;
}

uint32_t sim_drive_unflushed(const struct sim_drive *sim)
{
	return sim->write_count;
}

void sim_drive_flip(struct sim_drive *sim, uint64_t byte, uint32_t bit)
{
	ASSERT(byte < sim->size_bytes && bit < 8);
	sim->visible[byte] ^= (uint8_t)(1u << bit);
	sim->durable[byte] ^= (uint8_t)(1u << bit);
	sim__image_new(sim);
}

void sim_drive_ruin(struct sim_drive *sim, uint64_t block)
{
	const uint32_t units = 4096 / sim->atomic_bytes;

	ASSERT(block < sim->size_bytes / 4096);
	for (uint32_t i = 0; i < units; i++) {
		sim->visible_bad[block * units + i] = true;
		sim->durable_bad[block * units + i] = true;
	}
	sim__image_new(sim);
}

void sim_drive_restore(struct sim_drive *sim, const uint8_t *image)
{
	for (uint32_t i = 0; i < SIM_QUEUES; i++)
		ASSERT(!sim->queue[i] || sim->queue[i]->pending_count == 0);
	memcpy(sim->durable, image, sim->size_bytes);
	memset(sim->durable_bad, 0,
	       sim->size_bytes / sim->atomic_bytes * sizeof(*sim->durable_bad));
	memset(sim->freed, 0, sim->size_bytes / sim->atomic_bytes * sizeof(*sim->freed));
	see_durable(sim, 0, sim->size_bytes);
	sim->write_count = 0;
	sim->log_used = 0;
	sim__image_new(sim);
}

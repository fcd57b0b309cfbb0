/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Two workloads without an appliance: the bare pipeline itself, and blocks of drives through
 * the driver, on as many cores as one likes (a file: drive is created when missing).
 *
 *   worker 0 (this thread)   queue pair of drive 0, of drive 1, ...   `depth` I/Os on each
 *   worker 1                 queue pair of drive 0, of drive 1, ...
 *
 * On one core and one drive, reading, it is compared with a bare loop on a queue pair of the same
 * controller; drives in memory also with the same copies by memcpy.
 */
#include "bench/bench.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/rand.h"
#include "nvme/nvme.h"
#include "nvme/driver/nvme_bare.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int bench_workload_pipe(const struct bench_conf *conf)
{
	struct bench_part part[BENCH_ROLES] = { 0 };
	struct bench_pipe *pipe = NULL;
	int err;

	if (bench_pipe_create(&pipe, conf->size_bytes, conf->depth, conf->size_bytes > 65536, conf))
		return bench_fail("no memory for the pipeline (2 GiB)");
	part[BENCH_WORK] = (struct bench_part){ bench_pipe_run, pipe };
	part[BENCH_VS_COPY] = (struct bench_part){ bench_copy_run, pipe };
	err = bench_measure(conf, "pipe", "none", part);
	bench_pipe_destroy(pipe);
	return err;
}

enum { DEPTH_MAX = NVME_BARE_DEPTH_MAX };

struct bed;

/* A worker's share of one drive. */
struct lane {
	struct nvme_qpair *qp;
	const char *name;
	uint64_t places; /* of `io_blocks` each */
	uint64_t next;
	uint64_t iova; /* of its buffers */
	struct nvme_io io[DEPTH_MAX];
	uint64_t began[DEPTH_MAX];
};

struct worker {
	struct bed *bed;
	uint32_t index;
	pthread_t thread;
	struct lane *lane; /* one a drive */
	struct rand_state rand;
	double seconds; /* of this run */
	uint64_t count; /* or this many */
	uint64_t begun;
	struct bench_run run;
	struct stat_hist hist;
	int err;
};

struct bed {
	const struct bench_conf *conf;
	struct arena *arena;
	struct nvme_dma *dma;
	struct nvme_drive *drive[BENCH_DRIVES_MAX];
	uint32_t drive_count;
	struct worker *worker[BENCH_THREADS_MAX];
	struct nvme_qpair *bare; /* NULL: not compared with */
	uint64_t nblocks;        /* of drive 0 */
	uint32_t io_blocks;
	bool sequential;
};

/* ---- a worker -------------------------------------------------------------------------- */

static int submit(struct worker *w, struct lane *l, struct nvme_io *io, uint64_t now)
{
	uint64_t place =
		w->bed->sequential ? l->next++ % l->places : rand_below(&w->rand, l->places);
	uint32_t reads = w->bed->conf->read_percent;
	int err;

	io->block = place * w->bed->io_blocks;
	if (reads < 100)
		io->op = rand_below(&w->rand, 100) < reads ? NVME_READ : NVME_WRITE;
	l->began[io - l->io] = now;
	w->begun++;
	err = nvme_submit(l->qp, io);
	return err ? bench_fail("%s: submit: %s", l->name, strerror(-err)) : 0;
}

/* I/Os that have ended at `now`: counted, and each followed by another unless it is over. */
static int turn(struct worker *w, struct lane *l, uint64_t now, uint64_t end)
{
	struct nvme_io *done[64];
	uint32_t count = nvme_poll(l->qp, done, ARRAY_LEN(done));
	int err = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (done[i]->status)
			return bench_fail("%s: block %llu: %s", l->name,
					  (unsigned long long)done[i]->block,
					  strerror(-done[i]->status));
		w->run.ops++;
		if (w->run.hist)
			stat_hist_record(w->run.hist, now - l->began[done[i] - l->io]);
		if (!err && (w->count ? w->begun < w->count : now < end))
			err = submit(w, l, done[i], now);
	}
	return err;
}

static bool busy(const struct worker *w)
{
	for (uint32_t d = 0; d < w->bed->drive_count; d++)
		if (nvme_qpair_in_flight(w->lane[d].qp) > 0)
			return true;
	return false;
}

static void work(struct worker *w)
{
	const struct bed *b = w->bed;
	uint64_t start = clock_now_ns(), end = start + (uint64_t)(w->seconds * 1e9), now = start;
	struct bench_count counter;

	bench_count_begin(&counter);
	for (uint32_t i = 0; i < b->conf->depth; i++)
		for (uint32_t d = 0; !w->err && d < b->drive_count; d++)
			w->err = submit(w, &w->lane[d], &w->lane[d].io[i], start);
	while (!w->err && busy(w)) {
		now = clock_now_ns();
		if (bench_interrupted())
			end = now, w->count = 1;
		for (uint32_t d = 0; !w->err && d < b->drive_count; d++) {
			nvme_ring(w->lane[d].qp);
			w->err = turn(w, &w->lane[d], now, end);
		}
	}
	bench_count_end(&counter, &w->run.instructions, &w->run.cycles);
	w->run.ns = now - start;
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	if (cores > 1)
		bench_pin((int)((w->bed->conf->core_client + (long)w->index) % cores));
	work(w);
	return NULL;
}

static int run_nvme(void *bed, double seconds, struct bench_run *run)
{
	struct bed *b = bed;
	uint32_t count = b->conf->threads, started = 1;
	int err = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct worker *w = b->worker[i];

		stat_hist_reset(&w->hist);
		w->run = (struct bench_run){ .hist = run->hist ? &w->hist : NULL };
		w->seconds = seconds;
		w->count = b->conf->count / count;
		w->begun = 0;
	}
	for (; !err && started < count; started++)
		err = pthread_create(&b->worker[started]->thread, NULL, worker_main,
				     b->worker[started]);
	if (err) {
		err = bench_fail("no thread: %s", strerror(err));
		started--;
	} else {
		work(b->worker[0]);
	}
	for (uint32_t i = 0; i < started; i++) {
		struct worker *w = b->worker[i];

		if (i > 0)
			pthread_join(w->thread, NULL);
		err |= w->err;
		run->ops += w->run.ops;
		run->ns = max_u64(run->ns, w->run.ns);
		run->instructions += w->run.instructions;
		run->cycles += w->run.cycles;
		if (run->hist)
			stat_hist_merge(run->hist, &w->hist);
	}
	run->bytes = run->ops * b->conf->size_bytes;
	return err;
}

static int run_bare(void *bed, double seconds, struct bench_run *run)
{
	struct bed *b = bed;
	uint64_t start = clock_now_ns(), end = start + (uint64_t)(seconds * 1e9), now = start;
	struct nvme_bare bare;
	int err = nvme_bare_begin(&bare, b->bare, b->conf->depth, b->io_blocks,
				  b->worker[0]->lane[0].iova, b->nblocks);

	if (err)
		return bench_fail("%s: no bare loop: %s", b->conf->drive, strerror(-err));
	while (now < end && !bench_interrupted()) {
		run->ops += nvme_bare_turn(&bare);
		now = clock_now_ns();
	}
	run->ns = now - start;
	err = nvme_bare_end(&bare);
	return err ? bench_fail("%s: %s", b->conf->drive, strerror(-err)) : 0;
}

/* ---- the bed --------------------------------------------------------------------------- */

/* Whether a queue of `entries` has room for all I/Os of one lane. */
static int check_depth(const struct bed *b, const char *name, const struct nvme_info *info,
		       uint32_t entries)
{
	uint64_t commands = div_up(b->conf->size_bytes, info->transfer_max_bytes);
	uint64_t most = (entries - 1) / commands;

	if (b->conf->depth <= most)
		return 0;
	return bench_fail("%s: its queues have %u entries, and an I/O is %llu of them: --depth is "
			  "at most %llu",
			  name, entries, (unsigned long long)commands, (unsigned long long)most);
}

static int open_drive(struct bed *b, uint32_t d, const char *name)
{
	struct nvme_options options = { .create = true, .qpair_count_max = b->conf->threads + 1 };
	struct nvme_info info;
	char err_text[NVME_ERR_TEXT];
	uint64_t bytes = b->conf->size_bytes * b->conf->depth;

	for (uint32_t i = 0; i < b->conf->drive_count; i++)
		options.namespace_count += nvme_name_shares(b->conf->drives[i], name);
	if (nvme_open(&b->drive[d], name, b->dma, &options, err_text, sizeof(err_text)))
		return bench_fail("%s", err_text);
	b->drive_count++;
	nvme_drive_info(b->drive[d], &info);
	if (info.nblocks < b->io_blocks)
		return bench_fail("%s: smaller than one I/O", name);
	if (check_depth(b, name, &info, min_u32(info.depth_max, 1024)))
		return 1;
	if (info.note[0])
		fprintf(stderr, "# %s: %s\n", name, info.note);
	b->nblocks = d == 0 ? info.nblocks : b->nblocks;
	for (uint32_t i = 0; i < b->conf->threads; i++) {
		struct lane *l = &b->worker[i]->lane[d];
		uint64_t iova;

		if (nvme_qpair_create(b->drive[d], min_u32(info.depth_max, 1024), &l->qp))
			return bench_fail("%s: it grants %u queue pairs, but each thread needs one",
					  name, info.qpair_count_max);
		iova = arena_iova(b->arena, arena_alloc(b->arena, bytes, NVME_BLOCK_SIZE));
		l->name = name;
		l->places = info.nblocks / b->io_blocks;
		l->next = i * (l->places / b->conf->threads); /* each its own part */
		l->iova = iova;
		for (uint32_t k = 0; k < b->conf->depth; k++)
			l->io[k] = (struct nvme_io){ .op = NVME_READ,
						     .nblocks = b->io_blocks,
						     .iova = iova + k * b->conf->size_bytes };
	}
	return 0;
}

/* Anonymous memory is the likelier to be of huge pages, but a server cannot be given it. */
static int make_arena(const struct bench_conf *conf, uint64_t bytes, struct arena **out)
{
	for (uint32_t d = 0; d < conf->drive_count; d++) {
		if (strncmp(conf->drives[d], "vfio-user:", 10) == 0)
			return arena_create_file(bytes, out);
	}
	return arena_create(bytes, out);
}

static int open_bed(struct bed *b, const struct bench_conf *conf)
{
	uint64_t bytes = conf->size_bytes * conf->depth * conf->threads * conf->drive_count, iova;
	int err = 0;

	b->conf = conf;
	b->io_blocks = (uint32_t)(conf->size_bytes / NVME_BLOCK_SIZE);
	b->sequential = conf->size_bytes > 65536;
	for (uint32_t i = 0; i < conf->threads; i++) {
		struct worker *w = b->worker[i] = calloc(1, sizeof(*w));

		if (!w || !(w->lane = calloc(conf->drive_count, sizeof(*w->lane))))
			return bench_fail("out of memory");
		w->bed = b;
		w->index = i;
		rand_seed(&w->rand, i + 3);
	}
	if (nvme_dma_create(&b->dma) || make_arena(conf, bytes, &b->arena))
		return bench_fail("no memory");
	if (nvme_dma_map_file(b->dma, arena_base(b->arena), arena_size(b->arena),
			      arena_fd(b->arena), 0, &iova))
		return bench_fail("cannot map buffers");
	arena_set_iova(b->arena, iova);
	for (uint32_t d = 0; !err && d < conf->drive_count; d++)
		err = open_drive(b, d, conf->drives[d]);
	if (!err && conf->threads == 1 && conf->drive_count == 1 && conf->read_percent == 100 &&
	    nvme_qpair_create(b->drive[0], conf->depth + 1, &b->bare))
		b->bare = NULL; /* it has only one: no comparison */
	return err;
}

static void close_bed(struct bed *b)
{
	for (uint32_t i = 0; i < b->conf->threads && b->worker[i]; i++) {
		for (uint32_t d = 0; b->worker[i]->lane && d < b->drive_count; d++)
			nvme_qpair_destroy(b->worker[i]->lane[d].qp);
		free(b->worker[i]->lane);
		free(b->worker[i]);
	}
	nvme_qpair_destroy(b->bare);
	for (uint32_t d = 0; d < b->drive_count; d++)
		nvme_close(b->drive[d]);
	if (b->dma)
		nvme_dma_destroy(b->dma);
	arena_destroy(b->arena);
}

static bool in_memory(const struct bench_conf *conf)
{
	return strncmp(conf->drives[0], "mem:", 4) == 0 && !strchr(conf->drives[0], '?');
}

static int measure(struct bed *b)
{
	const struct bench_conf *conf = b->conf;
	struct bench_part part[BENCH_ROLES] = { 0 };
	struct bench_pipe *pipe = NULL;
	int err;

	part[BENCH_WORK] = (struct bench_part){ run_nvme, b };
	if (b->bare)
		part[BENCH_VS_BARE] = (struct bench_part){ run_bare, b };
	if (in_memory(conf) && conf->threads == 1 && conf->drive_count == 1) {
		if (bench_pipe_create(&pipe, conf->size_bytes, conf->depth, b->sequential, conf))
			return bench_fail("no memory for the comparison (2 GiB)");
		part[BENCH_VS_COPY] = (struct bench_part){ bench_copy_run, pipe };
	}
	err = bench_measure(conf, "nvme", "none", part);
	bench_pipe_destroy(pipe);
	return err;
}

int bench_workload_nvme(const struct bench_conf *given)
{
	struct bench_conf conf = *given;
	struct bed *b;
	int err;

	if (conf.drive_count == 0)
		conf.drives[conf.drive_count++] = conf.drive;
	if (conf.size_bytes % NVME_BLOCK_SIZE || conf.size_bytes > (4u << 20))
		return bench_fail("--size of nvme must be a multiple of 4K, up to 4M");
	b = calloc(1, sizeof(*b));
	if (!b)
		return bench_fail("out of memory");
	bench_pin(conf.core_client);
	err = open_bed(b, &conf);
	if (!err)
		err = measure(b);
	close_bed(b);
	free(b);
	return err;
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Computes the rate of several polling cores, on a machine that has too few to measure it.
 *
 *   clock[0]  ----step----step--------step---->      each core has a clock of its own; the one
 *   clock[1]  --step------step--step---------->      whose clock is behind is stepped next, and
 *                                                    its clock goes on by what the step took
 *
 * The cores are the shipped ones, with their rings, over memory drives, all stepped by this thread;
 * what a step took of a processor is measured, so that other programs cost it nothing but caches.
 * In one thread a message finds everything in this processor's cache, so what it costs between two
 * is measured first, with two threads, and is added for each call that crosses, on both sides.
 * Clients answer at once and cost nothing; they are spread over the cores as the appliance does it.
 *
 * usage: cores_clock [--ms VIRTUAL | --count N] [--crossing NS] [--only SHAPE] [--drive MEM]
 *                    [--spread NAMES] [--files N] [CORES...]
 *
 * The default: 300 ms, as measured, mem:2G, 64 files a request, 1 2 4.  Shapes: name (files read by
 * name), stat (their attributes), list (a directory of 4096, with attributes), random (reads),
 * write (256 KiB at random places of the one large file), create (new files of 4 KiB by name, in
 * all directories), own (the same, each client in directories of its own), unlink (files of
 * create, as they were made), mixed (a quarter of the clients create, the others read by name in
 * the same directories), idle (turns without a request; only if asked for).
 * With --count a run ends when so much has come: two of them under callgrind, less each other, are
 * what one costs (bench/instructions_store.sh), or the files that it touches (bench/way.sh).
 */
#define _GNU_SOURCE
#include "appliance/core/app_op.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/rand.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	CLIENTS = 8, /* in all */
	FILES = 4096,
	DIRS = 32,
	BATCH = 64,
	BATCHES = 2, /* in flight a client */
	DEPTH = 16,  /* of single reads    */
	SLOTS = 16,
	WINDOW = 512 << 10,
	LARGE_MIB = 128,
	PIECE = WINDOW / 2, /* of a write: the rest is for its checksums */
	LISTED = 512,       /* entries a page */
	NAME_BYTES = 32,
	ADDRESS_BYTES = 64,
};

enum shape {
	BY_NAME,
	STAT,
	LIST,
	AT_RANDOM,
	WRITE,
	CREATE,
	CREATE_OWN,
	UNLINK,
	MIXED,
	IDLE,
	SHAPES
};
static const char *const shape_name[SHAPES] = { "name",   "stat", "list",   "random", "write",
						"create", "own",  "unlink", "mixed",  "idle" };

struct slot {
	struct fab_call call;
	struct fab_read_item read[BATCH];
	struct fab_put_item put[BATCH];
	struct fab_name stat[BATCH];
	uint8_t cookie[FAB_COOKIE_BYTES]; /* LIST: where the slot's own listing goes on */
	char name[BATCH][NAME_BYTES];
	bool out;
};

struct client {
	struct fab_conn *conn;
	struct fab_region *region;
	uint32_t core; /* where the appliance has put it */
	struct rand_state rand;
	uint32_t made; /* files */
	uint32_t gone; /* ... of which so many were removed again */
	struct slot slot[SLOTS];
};

static const struct fab_key key = { .id = "clock", .secret = { 1, 2, 3 } };
static uint32_t ncores;
static struct nvme_dma *dma;
static struct nvme_drive *drive;
static struct fab_server *srv[APP_CORES_MAX];
static struct app_cores *cores;
static struct app_core *core[APP_CORES_MAX];
static struct client client[CLIENTS];
static struct fab_handle large;
static uint64_t clock_ns[APP_CORES_MAX], crossing_ns = UINT64_MAX, virtual_ms = 300;
static uint32_t spread_at; /* names of a directory; 0: as in a store */
static uint64_t count_max; /* --count; 0: by time */
static const char *drive_name = "mem:2G";
static uint32_t dirs = DIRS;   /* that files are made in */
static uint32_t files = BATCH; /* of a request that has many */

/* ---- what a message costs ---------------------------------------------------------------- */

enum { PAIRS = 40000, BALLS = 64, PER_TELL = 16 };
static struct app_ring to[2];
static struct app_op *ball;

static void touch(struct app_op *op)
{
	uint64_t *word = (uint64_t *)(void *)&op->meta;

	for (uint32_t i = 0; i < sizeof(op->meta) / sizeof(*word); i += 8)
		word[i]++;
	op->runs[0].nblocks++;
	op->crcs[0]++;
}

static void *other_core(void *arg)
{
	struct app_message m, seen[PER_TELL];

	(void)arg;
	for (uint32_t done = 0; done < PAIRS;) {
		uint32_t count = 0;

		while (count < PER_TELL && app_ring_pop(&to[1], &m)) {
			for (uint32_t i = 0; i < sizeof(struct meta_op); i += APP_RING_LINE)
				__builtin_prefetch((char *)&m.op->meta + i, 1);
			seen[count++] = m;
		}
		for (uint32_t i = 0; i < count; i++) {
			touch(seen[i].op);
			app_ring_put(&to[0], seen[i]);
		}
		if (count)
			(void)app_ring_tell(&to[0]);
		done += count;
	}
	return NULL;
}

static uint64_t measure_crossing(void)
{
	static struct app_message slots[2][256];
	struct app_message m;
	uint64_t begin_ns;
	pthread_t thread;

	ball = aligned_alloc(64, align_up(BALLS * sizeof(*ball), 64));
	ASSERT(ball);
	memset(ball, 0, BALLS * sizeof(*ball));
	for (uint32_t i = 0; i < 2; i++)
		app_ring_init(&to[i], slots[i], 256);
	ASSERT(pthread_create(&thread, NULL, other_core, NULL) == 0);
	for (uint32_t i = 0; i < BALLS; i++)
		app_ring_put(&to[1], (struct app_message){ { .op = &ball[i] }, APP_SAY_CALL });
	(void)app_ring_tell(&to[1]);
	begin_ns = clock_now_ns();
	for (uint32_t back = 0, sent = BALLS; back < PAIRS;) {
		uint32_t count = 0;

		while (count < PER_TELL && app_ring_pop(&to[0], &m)) {
			count++;
			touch(m.op);
			if (sent < PAIRS) {
				app_ring_put(&to[1], m);
				sent++;
			}
		}
		if (count)
			(void)app_ring_tell(&to[1]);
		back += count;
	}
	begin_ns = clock_now_ns() - begin_ns;
	pthread_join(thread, NULL);
	free(ball);
	return begin_ns / PAIRS;
}

/* ---- steps ------------------------------------------------------------------------------ */

static void step(uint32_t i)
{
	struct app_core_stat was, is;
	uint64_t now_ns, begin_ns, took_ns;

	app_core_stat(core[i], &was);
	now_ns = clock_now_ns();
	begin_ns = clock_cpu_ns();
	(void)app_core_step(core[i], now_ns, now_ns);
	took_ns = clock_cpu_ns() - begin_ns;
	app_core_stat(core[i], &is);
	clock_ns[i] += took_ns + crossing_ns * (is.asked - was.asked + is.served - was.served);
}

static void step_all(void)
{
	for (uint32_t i = 0; i < ncores; i++)
		step(i);
	(void)app_control_step(srv[0], dma, clock_now_ns());
}

static void begin_cores(void)
{
	struct nvme_options wanted = { .qpair_count_max = ncores };
	char why[APP_WHY];

	ASSERT(nvme_dma_create(&dma) == 0);
	ASSERT(nvme_open(&drive, drive_name, dma, &wanted, why, NVME_ERR_TEXT) == 0);
	ASSERT(app_cores_create(&cores, ncores, 0) == 0);
	for (uint32_t i = 0; i < ncores; i++) {
		struct app_core_cfg cfg = {
			.spread_at = spread_at,
			.dma = dma,
			.drive = &drive,
			.ndrives = 1,
			.srv = srv[i],
			.boot = APP_BOOT_FORMAT,
			.secret = 7,
			.cores = cores,
			.index = i,
		};
		int err = app_core_create(&core[i], &cfg, why);

		if (err)
			fprintf(stderr, "cores_clock: %s\n", why);
		ASSERT(err == 0);
	}
	for (uint32_t i = 0; i < ncores; i++)
		while (app_core_boot_status(core[i]) == -EAGAIN)
			step_all();
}

static void begin_server(char *address)
{
	struct fab_server_cfg cfg = { .key = key, .core_count = ncores };

	snprintf(address, ADDRESS_BYTES, "shm:/tmp/weka-clock.%d", (int)getpid());
	ASSERT(fab_server_create(&srv[0], &cfg) == 0);
	for (uint32_t i = 1; i < ncores; i++)
		ASSERT(fab_server_add(srv[0], &srv[i]) == 0);
	ASSERT(fab_server_listen(srv[0], address, NULL) == 0);
}

static void begin_client(struct client *c, uint32_t index, const char *address)
{
	struct fab_connect_cfg cfg = { .address = address, .key = key };
	struct fab_call *none[1];
	int err;

	*c = (struct client){ 0 };
	rand_seed(&c->rand, index);
	ASSERT(fab_connect(&c->conn, &cfg, clock_now_ns()) == 0);
	while ((err = fab_connect_step(c->conn, clock_now_ns())) == -EINPROGRESS)
		step_all();
	ASSERT(err == 0);
	ASSERT(fab_pool_add(c->conn, SLOTS * WINDOW, &c->region) == 0);
	while (fab_region_status(c->region) == -EINPROGRESS) {
		step_all();
		(void)!fab_poll(c->conn, clock_now_ns(), none, 0);
	}
	ASSERT(fab_region_status(c->region) == 0);
	for (uint32_t i = 0; i < ncores; i++) {
		uint32_t sessions = core[i]->sessions_open;

		for (uint32_t k = 0; k < index; k++)
			sessions -= client[k].core == i;
		if (sessions)
			c->core = i;
	}
}

static void end_all(void)
{
	for (uint32_t i = 0; i < CLIENTS; i++)
		fab_close(client[i].conn);
	fab_server_shut(srv[0]);
	for (uint32_t i = 0; i < ncores; i++)
		app_core_stop(core[i]);
	while (app_core_stop_status(core[0]) == -EAGAIN)
		step_all();
	for (uint32_t i = 0; i < ncores; i++)
		app_core_abandon(core[i]);
	for (uint32_t i = 0; i < ncores; i++)
		app_core_destroy(core[i]);
	app_cores_destroy(cores);
	while (app_control_step(srv[0], dma, clock_now_ns()))
		;
	for (uint32_t i = ncores; i-- > 0;)
		fab_server_destroy(srv[i]);
	nvme_close(drive);
	nvme_dma_destroy(dma);
}

/* ---- calls ------------------------------------------------------------------------------- */

static struct fab_name name_of(struct slot *s, uint32_t i, uint32_t file)
{
	int bytes = snprintf(s->name[i], NAME_BYTES, "/d%u/f%u", file % dirs, file);

	return (struct fab_name){ .by = FAB_BY_PATH,
				  .name = s->name[i],
				  .name_bytes = (uint16_t)bytes };
}

static void submit(struct client *c, struct slot *s)
{
	if (s->call.type != FAB_UNLINK) {
		s->call.region = c->region;
		s->call.window_offset = (uint64_t)(s - c->slot) * WINDOW;
		s->call.window_bytes = WINDOW;
	}
	ASSERT(fab_submit(c->conn, &s->call) == 0);
	s->out = true;
}

/* One call alone, in a window of the first slot. */
static struct slot *call(struct client *c, struct slot *s)
{
	struct fab_call *done[1];

	submit(c, s);
	do {
		fab_flush(c->conn);
		step_all();
	} while (fab_poll(c->conn, clock_now_ns(), done, 1) == 0);
	if (s->call.status)
		fprintf(stderr, "cores_clock: call %d: %s\n", s->call.type,
			strerror(-s->call.status));
	ASSERT(s->call.status == 0);
	s->out = false;
	return s;
}

static void make_dir(struct client *c, const char *path)
{
	struct slot *s = &c->slot[0];

	memset(&s->call, 0, sizeof(s->call));
	s->call.type = FAB_MKDIR;
	s->call.args.make.name = (struct fab_name){ .by = FAB_BY_PATH,
						    .name = path,
						    .name_bytes = (uint16_t)strlen(path) };
	s->call.args.make.mode = 0755;
	(void)call(c, s);
}

static void make_dirs(struct client *c)
{
	char path[NAME_BYTES];

	for (uint32_t i = 0; i < dirs; i++) {
		snprintf(path, sizeof(path), "/d%u", i);
		make_dir(c, path);
	}
}

static uint8_t *window_of(struct client *c, const struct slot *s)
{
	return (uint8_t *)fab_region_memory(c->region) + (uint64_t)(s - c->slot) * WINDOW;
}

/* Fills the window of a call with the content of all small files. */
static void fill_window(struct client *c, struct slot *s)
{
	uint8_t *window = window_of(c, s);
	uint32_t sum;

	memset(window, 5, BLOCK_SIZE);
	sum = crc32c_block(window, BLOCK_SIZE);
	memcpy(window + BLOCK_SIZE, &sum, sizeof(sum));
}

static void make_files(struct client *c)
{
	for (uint32_t i = 0; i < SLOTS; i++)
		fill_window(c, &c->slot[i]);
	for (uint32_t at = 0; at < FILES; at += BATCH) {
		struct slot *s = &c->slot[0];

		memset(&s->call, 0, sizeof(s->call));
		for (uint32_t i = 0; i < BATCH; i++)
			s->put[i] = (struct fab_put_item){
				.name = name_of(s, i, at + i),
				.size_bytes = BLOCK_SIZE,
				.payload_at = 0,
				.sums_at = BLOCK_SIZE,
				.mode = 0644,
			};
		s->call.type = FAB_PUT;
		s->call.args.batch.count = BATCH;
		s->call.args.batch.puts = s->put;
		(void)call(c, s);
	}
}

/* Fills the window of a call with a piece of the large file. */
static void fill_piece(struct client *c, struct slot *s)
{
	uint8_t *window = window_of(c, s);
	uint32_t sum;

	memset(window, 5, PIECE);
	sum = crc32c_block(window, BLOCK_SIZE);
	for (uint32_t i = 0; i < PIECE / BLOCK_SIZE; i++)
		memcpy(window + PIECE + i * sizeof(sum), &sum, sizeof(sum));
}

static void set_write(struct slot *s, uint64_t at)
{
	memset(&s->call, 0, sizeof(s->call));
	s->call.type = FAB_WRITE;
	s->call.args.write.handle = large;
	s->call.args.write.offset_bytes = at;
	s->call.args.write.length_bytes = PIECE;
	s->call.args.write.sums_at = PIECE;
}

static void make_large(struct client *c)
{
	struct slot *s = &c->slot[0];
	struct fab_attr attr;

	memset(&s->call, 0, sizeof(s->call));
	s->call.type = FAB_OPEN;
	s->call.args.open.name =
		(struct fab_name){ .by = FAB_BY_PATH, .name = "/large", .name_bytes = 6 };
	s->call.args.open.flags = FAB_OPEN_CREATE;
	s->call.args.open.mode = 0644;
	ASSERT(fab_call_attr(&call(c, s)->call, 0, &attr) == 0);
	large = attr.handle;
	fill_piece(c, s);
	for (uint64_t at = 0; at < (uint64_t)LARGE_MIB << 20; at += PIECE) {
		set_write(s, at);
		(void)call(c, s);
	}
}

/* ---- the load ------------------------------------------------------------------------------ */

/* Returns the name of a client's file `number`, which may not exist yet. */
static struct fab_name own_name(struct client *c, struct slot *s, uint32_t i, uint32_t number,
				enum shape shape)
{
	const uint32_t index = (uint32_t)(c - client);
	uint32_t dir = (uint32_t)(hash_u64(index, number) % DIRS);
	int bytes;

	if (shape == CREATE_OWN)
		dir = dir / CLIENTS * CLIENTS + index;
	bytes = snprintf(s->name[i], NAME_BYTES, "/d%u/n%u.%u", dir, index, number);
	return (struct fab_name){ .by = FAB_BY_PATH,
				  .name = s->name[i],
				  .name_bytes = (uint16_t)bytes };
}

/* What this client does of it: of a mixed load the first two create, the others read. */
static enum shape part_of(const struct client *c, enum shape shape)
{
	if (shape != MIXED)
		return shape;
	return c - client < CLIENTS / 4 ? CREATE : BY_NAME;
}

static void ask(struct client *c, struct slot *s, enum shape shape)
{
	memset(&s->call, 0, sizeof(s->call));
	shape = part_of(c, shape);
	if (shape == WRITE) {
		set_write(s, rand_below(&c->rand, ((uint64_t)LARGE_MIB << 20) / PIECE) * PIECE);
	} else if (shape == UNLINK) {
		s->call.type = FAB_UNLINK;
		s->call.args.name.name = own_name(c, s, 0, c->gone++, shape);
	} else if (shape >= CREATE) {
		s->call.type = FAB_PUT;
		for (uint32_t i = 0; i < files; i++)
			s->put[i] = (struct fab_put_item){
				.name = own_name(c, s, i, c->made++, shape),
				.size_bytes = BLOCK_SIZE,
				.payload_at = 0,
				.sums_at = BLOCK_SIZE,
				.mode = 0644,
			};
		s->call.args.batch.count = files;
		s->call.args.batch.puts = s->put;
	} else if (shape == LIST) {
		s->call.type = FAB_LIST;
		s->call.args.list.dir =
			(struct fab_name){ .by = FAB_BY_PATH, .name = "/d0", .name_bytes = 3 };
		memcpy(s->call.args.list.cookie, s->cookie, sizeof(s->cookie));
		s->call.args.list.count_max = LISTED;
	} else if (shape == STAT) {
		s->call.type = FAB_STAT;
		for (uint32_t i = 0; i < files; i++)
			s->stat[i] = name_of(s, i, (uint32_t)rand_below(&c->rand, FILES));
		s->call.args.batch.count = files;
		s->call.args.batch.names = s->stat;
	} else if (shape == AT_RANDOM) {
		s->call.type = FAB_READ;
		s->call.args.read.handle = large;
		s->call.args.read.offset_bytes =
			rand_below(&c->rand, ((uint64_t)LARGE_MIB << 20) / BLOCK_SIZE) * BLOCK_SIZE;
		s->call.args.read.length_bytes = BLOCK_SIZE;
	} else {
		s->call.type = FAB_READ_BATCH;
		for (uint32_t i = 0; i < files; i++)
			s->read[i] = (struct fab_read_item){
				.name = name_of(s, i, (uint32_t)rand_below(&c->rand, FILES)),
				.length_bytes = BLOCK_SIZE,
			};
		s->call.args.batch.count = files;
		s->call.args.batch.reads = s->read;
	}
	submit(c, s);
}

static uint32_t answers(const struct fab_call *call)
{
	struct fab_answer answer;

	for (uint32_t i = 0; i < files; i++)
		ASSERT(fab_call_answer(call, i, &answer) == 0 && answer.status == 0);
	return files;
}

static uint32_t attributes(const struct fab_call *call)
{
	struct fab_attr attr;

	for (uint32_t i = 0; i < files; i++)
		ASSERT(fab_call_attr(call, i, &attr) == 0 && attr.size_bytes == BLOCK_SIZE);
	return files;
}

/* The slot's listing goes on where it ended, or from the start. */
static uint32_t entries(struct slot *s)
{
	uint32_t count, found = 0, at = 0;
	struct fab_entry entry;
	bool at_end;

	ASSERT(fab_call_listed(&s->call, &count, &at_end, s->cookie) == 0);
	while (fab_call_entry(&s->call, &at, &entry) == 1)
		found += entry.attr.size_bytes == BLOCK_SIZE;
	ASSERT(found == count);
	if (at_end)
		memset(s->cookie, 0, sizeof(s->cookie));
	return count;
}

/* Returns how many files, entries or blocks an answer has. */
static uint32_t came(struct slot *s, enum shape shape)
{
	ASSERT(s->call.status == 0);
	if (shape == LIST)
		return entries(s);
	if (shape == STAT)
		return attributes(&s->call);
	if (shape == WRITE)
		return PIECE / BLOCK_SIZE;
	return shape == AT_RANDOM || shape == UNLINK ? 1 : answers(&s->call);
}

/* Takes in answers and sends new requests at once.  Returns the files, entries or blocks
 * received. */
static uint32_t serve_client(struct client *c, enum shape shape)
{
	const bool batches = shape != AT_RANDOM && shape != WRITE && shape != UNLINK;
	uint32_t slots = batches ? BATCHES : DEPTH, count = 0;
	struct fab_call *done[SLOTS];
	uint32_t back = fab_poll(c->conn, clock_now_ns(), done, SLOTS);

	for (uint32_t i = 0; i < back; i++) {
		struct slot *s = container_of(done[i], struct slot, call);

		s->out = false;
		count += came(s, shape);
	}
	for (uint32_t i = 0; i < slots; i++)
		if (!c->slot[i].out && (shape != UNLINK || c->gone < c->made))
			ask(c, &c->slot[i], shape);
	fab_flush(c->conn);
	return count;
}

static uint32_t behind(void)
{
	uint32_t at = 0;

	for (uint32_t i = 1; i < ncores; i++)
		if (clock_ns[i] < clock_ns[at])
			at = i;
	return at;
}

static bool all_gone(void)
{
	for (uint32_t i = 0; i < CLIENTS; i++)
		if (client[i].gone < client[i].made)
			return false;
	return true;
}

/* Until all clocks have gone on by so much, or so much has come.  Returns what came. */
static uint64_t run_for(enum shape shape, uint64_t ns, uint64_t most)
{
	uint64_t count = 0, end_ns = clock_ns[behind()] + ns;

	while (clock_ns[behind()] < end_ns && count < most && !(shape == UNLINK && all_gone())) {
		uint32_t at = behind();

		step(at);
		count += shape == IDLE;
		for (uint32_t i = 0; i < CLIENTS && shape != IDLE; i++)
			if (client[i].core == at)
				count += serve_client(&client[i], shape);
	}
	return count;
}

static void drain(void)
{
	struct fab_call *done[SLOTS];
	bool some = true;

	while (some) {
		some = false;
		step_all();
		for (uint32_t i = 0; i < CLIENTS; i++) {
			uint32_t back = fab_poll(client[i].conn, clock_now_ns(), done, SLOTS);

			for (uint32_t k = 0; k < back; k++)
				container_of(done[k], struct slot, call)->out = false;
			for (uint32_t k = 0; k < SLOTS; k++)
				some |= client[i].slot[k].out;
		}
	}
}

/* After a warm-up of a quarter; what is unlinked is created first. */
static double rate(enum shape shape)
{
	const uint64_t most = count_max ? count_max : UINT64_MAX;
	const uint64_t ns = count_max ? UINT64_MAX / 2 : virtual_ms * NS_PER_MS;
	uint64_t count, took_ns;

	for (uint32_t i = 0; shape >= WRITE && shape != IDLE && i < CLIENTS; i++)
		for (uint32_t k = 0; k < SLOTS; k++)
			(shape == WRITE ? fill_piece : fill_window)(&client[i], &client[i].slot[k]);
	memset(clock_ns, 0, sizeof(clock_ns));
	if (shape == UNLINK)
		(void)run_for(CREATE, ns, most);
	else
		(void)run_for(shape, ns / 4, most / 4);
	drain();
	memset(clock_ns, 0, sizeof(clock_ns));
	count = run_for(shape, ns, most);
	took_ns = clock_ns[behind()];
	drain();
	return (double)count * 1e9 / (double)took_ns;
}

/* Returns how many of a hundred changes that reached other cores than core 0 were made there. */
static double made_percent(void)
{
	uint64_t made = 0, asked = 0;
	struct app_core_stat stat;

	for (uint32_t i = 1; i < ncores; i++) {
		app_core_stat(core[i], &stat);
		made += stat.made;
		asked += stat.requests[FAB_PUT] * files;
	}
	return asked ? 100.0 * (double)made / (double)asked : 0;
}

static void measure(uint32_t count, const bool *wanted, double *rates)
{
	char address[ADDRESS_BYTES];

	for (uint32_t shape = 0; shape < SHAPES; shape++) {
		if (!wanted[shape])
			continue;
		ncores = count;
		begin_server(address);
		begin_cores();
		for (uint32_t i = 0; i < CLIENTS; i++)
			begin_client(&client[i], i, address);
		dirs = shape == LIST ? 1 : DIRS;
		make_dirs(&client[0]);
		make_files(&client[0]);
		if (shape == AT_RANDOM || shape == WRITE)
			make_large(&client[0]);
		rates[shape] = rate(shape);
		if (shape == CREATE || shape == CREATE_OWN)
			printf("# %u cores, %s: %.0f %% of what others had they made themselves\n",
			       count, shape_name[shape], made_percent());
		end_all();
	}
}

static bool pick(const char *name, bool *wanted)
{
	for (uint32_t shape = 0; shape < SHAPES; shape++)
		if (strcmp(name, shape_name[shape]) == 0)
			return wanted[shape] = true;
	fprintf(stderr,
		"cores_clock: no shape %s: name, stat, list, random, write, create, own, unlink, "
		"mixed, idle\n",
		name);
	exit(2);
}

int main(int argc, char **argv)
{
	uint32_t counts[APP_CORES_MAX] = { 1, 2, 4 }, n = 0;
	bool wanted[SHAPES] = { false }, told = false, some = false;
	double rates[2][SHAPES];

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--ms") == 0 && i + 1 < argc)
			virtual_ms = strtoull(argv[++i], NULL, 0);
		else if (strcmp(argv[i], "--count") == 0 && i + 1 < argc)
			count_max = strtoull(argv[++i], NULL, 0);
		else if (strcmp(argv[i], "--drive") == 0 && i + 1 < argc)
			drive_name = argv[++i];
		else if (strcmp(argv[i], "--crossing") == 0 && i + 1 < argc)
			crossing_ns = strtoull(argv[++i], NULL, 0), told = true;
		else if (strcmp(argv[i], "--spread") == 0 && i + 1 < argc)
			spread_at = (uint32_t)strtoul(argv[++i], NULL, 0);
		else if (strcmp(argv[i], "--files") == 0 && i + 1 < argc)
			files = min_u32((uint32_t)strtoul(argv[++i], NULL, 0), BATCH);
		else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
			some = pick(argv[++i], wanted);
		else if (n < APP_CORES_MAX)
			counts[n++] = (uint32_t)atoi(argv[i]);
	}
	for (uint32_t shape = 0; shape < SHAPES; shape++)
		wanted[shape] |= !some && shape != IDLE;
	n = n ? n : 3;
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 0; i < 8 && !told; i++) /* the least: the others were disturbed */
		crossing_ns = min_u64(crossing_ns, measure_crossing());
	printf("a call that crosses: %llu ns on each side\n", (unsigned long long)crossing_ns);
	for (uint32_t i = 0; i < n; i++) {
		measure(counts[i], wanted, rates[i > 0]);
		printf("%u cores:", counts[i]);
		for (uint32_t shape = 0; shape < SHAPES; shape++)
			if (wanted[shape])
				printf("  %s %.0f/s (x %.2f)", shape_name[shape],
				       rates[i > 0][shape], rates[i > 0][shape] / rates[0][shape]);
		printf("\n");
	}
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A whole appliance of four cores, each a thread, and clients over both transports, each a thread:
 * files of their own written, appended to, read, renamed and removed, one file that all append to
 * at once, and one of which each writes blocks of its own.  Many are made in a row at first, in a
 * directory of one's own, whose shard is lent.  Every byte read is compared.  Four times: where
 * all pages stay in memory, where some are written and read again beside what is changed, where
 * directories are spread over shards, and in a store of two copies on files, of which each read
 * that does not come back at once is hedged.  Run under TSan: torture_app_cores [rounds].
 */
#define _GNU_SOURCE
#include "appliance/core/app_op.h"
#include "appliance/host/app_run.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/rand.h"
#include "client-lib/weka_client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
	CORES = 4,
	CLIENTS = 6,
	DRIVES = 2,
	FILES = 4,
	BYTES_MAX = 20000,
	RECORD = 100,
	APART_BLOCKS = 4,
	LIVES_MAX = 30
};

#define PATIENCE_NS (300 * NS_PER_S)

static const uint8_t secret[FAB_KEY_BYTES] = "any thirty-two bytes are a key.";
static struct nvme_dma *dma;
static struct nvme_drive *drive[DRIVES];
static struct fab_server *srv;
static struct app_run run;
static uint32_t rounds = 40;
static _Atomic bool stop;

static void *control_thread(void *arg)
{
	struct pollfd fds[2] = { { .fd = fab_server_control_fd(srv), .events = POLLIN },
				 { .fd = run.event_fd, .events = POLLIN } };
	bool stopping = false;
	uint64_t count;

	(void)arg;
	while (atomic_load_explicit(&run.at, memory_order_acquire) != APP_RUN_ENDED) {
		if (!stopping && atomic_load(&stop)) { /* as a daemon does: the doors first */
			stopping = true;
			fab_server_shut(srv);
			app_run_stop(&run);
		}
		if (!app_control_step(srv, dma, clock_now_ns()))
			(void)poll(fds, 2, 100);
		(void)!read(run.event_fd, &count, sizeof(count));
	}
	return NULL;
}

static void listen_for_clients(void)
{
	struct fab_server_cfg cfg = { .key = { .id = "weka" }, .core_count = CORES };
	char address[64];

	memcpy(cfg.key.secret, secret, FAB_KEY_BYTES);
	snprintf(address, sizeof(address), "shm:/tmp/weka-torture-%d.sock", (int)getpid());
	ASSERT(fab_server_create(&srv, &cfg) == 0);
	ASSERT(fab_server_listen(srv, address, NULL) == 0);
	ASSERT(fab_server_listen(srv, "tcp://127.0.0.1:0", NULL) == 0);
	for (uint32_t i = 1; i < CORES; i++)
		ASSERT(fab_server_add(srv, &run.srv[i]) == 0);
}

static void open_drives(bool files)
{
	struct nvme_options wanted = { .qpair_count_max = CORES, .create = files };
	char err_text[NVME_ERR_TEXT], name[64];

	for (uint32_t i = 0; i < DRIVES; i++) {
		snprintf(name, sizeof(name), "file:/tmp/weka-torture-%d.%u?size=128M",
			 (int)getpid(), i);
		ASSERT(nvme_open(&drive[i], files ? name : "mem:128M", dma, &wanted, err_text,
				 sizeof(err_text)) == 0);
		*strchr(name, '?') = '\0';
		ASSERT(!files || unlink(name + strlen("file:")) == 0);
	}
}

static void begin(pthread_t *control, uint64_t cache_bytes, uint32_t early_pages,
		  uint32_t spread_at, uint32_t copies)
{
	ASSERT(nvme_dma_create(&dma) == 0);
	open_drives(copies > 1);
	atomic_store(&stop, false);
	run = (struct app_run){ .cores = CORES, .spin_max_ns = 20 * NS_PER_US };
	listen_for_clients();
	run.cfg = (struct app_core_cfg){
		.dma = dma,
		.drive = drive,
		.ndrives = DRIVES,
		.srv = srv,
		.boot = APP_BOOT_FORMAT,
		.cache_bytes = cache_bytes,
		.early_pages = early_pages,
		.spread_at = spread_at,
		.copies = copies,
		.hedge_reads = copies - 1,
		.hedge_floor_ns = 1,
		.lend_after = spread_at ? 1 : 0, /* few names are in one shard for long */
		.staging_bytes = 16u << 20,
		.ops_max = 16, /* fewer than are asked for, so that some wait */
		.nshards = 16,
		.secret = 7,
		.wall_ns = (int64_t)clock_wall_ns(),
	};
	run.event_fd = eventfd(0, EFD_NONBLOCK);
	ASSERT(app_run_start(&run) == 0);
	while (atomic_load_explicit(&run.at, memory_order_acquire) == APP_RUN_STARTING)
		usleep(1000);
	ASSERT(atomic_load_explicit(&run.at, memory_order_acquire) == APP_RUN_SERVING);
	ASSERT(pthread_create(control, NULL, control_thread, NULL) == 0);
}

static void end(pthread_t control)
{
	pthread_join(control, NULL);
	app_run_join(&run);
	while (app_control_step(srv, dma, clock_now_ns()))
		;
	for (uint32_t i = CORES; i-- > 1;)
		fab_server_destroy(run.srv[i]);
	fab_server_destroy(srv);
	for (uint32_t i = 0; i < DRIVES; i++)
		nvme_close(drive[i]);
	ASSERT(nvme_dma_fault_count(dma) == 0);
	nvme_dma_destroy(dma);
	close(run.event_fd);
}

/* ---- clients ------------------------------------------------------------------------- */

struct visitor {
	uint32_t id;
	pthread_t thread;
	struct weka_client *client;
	struct rand_state rand;
	struct weka_attr together, apart;
	uint8_t own[APART_BLOCKS * WEKA_BLOCK]; /* of /apart */
	uint32_t size[FILES];                   /* UINT32_MAX: not there */
	uint8_t bytes[FILES][BYTES_MAX];
};

#define GOOD(call)                                                                                 \
	do {                                                                                       \
		int64_t rc = (call);                                                               \
		if (rc < 0)                                                                        \
			fprintf(stderr, "torture_app_cores: %s: %s\n", #call, weka_error(NULL));   \
		ASSERT(rc >= 0);                                                                   \
	} while (0)

static void path_of(const struct visitor *v, uint32_t i, char out[32])
{
	snprintf(out, 32, "/of%u/file%u", v->id, i);
}

static void put_file(struct visitor *v, uint32_t i)
{
	char path[32];

	path_of(v, i, path);
	v->size[i] = (uint32_t)rand_below(&v->rand, BYTES_MAX);
	for (uint32_t k = 0; k < v->size[i]; k++)
		v->bytes[i][k] = (uint8_t)rand_u64(&v->rand);
	GOOD(weka_write_file(v->client, path, v->bytes[i], v->size[i], NULL));
}

/* In place, and behind the end. */
static void change_file(struct visitor *v, uint32_t i)
{
	uint32_t at = (uint32_t)rand_below(&v->rand, v->size[i] + 1);
	uint32_t bytes = (uint32_t)rand_below(&v->rand, BYTES_MAX - at) + 1;
	struct weka_attr attr;
	char path[32];

	path_of(v, i, path);
	memset(v->bytes[i] + at, (int)rand_below(&v->rand, 256), bytes);
	v->size[i] = max_u32(v->size[i], at + bytes);
	GOOD(weka_open(v->client, path, 0, 0, &attr));
	GOOD(weka_pwrite(v->client, &attr.handle, v->bytes[i] + at, bytes, at));
}

static void rename_file(struct visitor *v, uint32_t i)
{
	uint32_t to = (i + 1) % FILES;
	char from_path[32], to_path[32];

	path_of(v, i, from_path);
	path_of(v, to, to_path);
	GOOD(weka_rename(v->client, from_path, to_path));
	memcpy(v->bytes[to], v->bytes[i], v->size[i]);
	v->size[to] = v->size[i];
	v->size[i] = UINT32_MAX;
}

static void remove_file(struct visitor *v, uint32_t i)
{
	char path[32];

	path_of(v, i, path);
	GOOD(weka_unlink(v->client, path));
	v->size[i] = UINT32_MAX;
}

static void compare(struct visitor *v, uint32_t i)
{
	size_t size_bytes;
	char path[32];
	void *bytes;
	int err;

	path_of(v, i, path);
	err = weka_read_file(v->client, path, &bytes, &size_bytes);
	if (v->size[i] == UINT32_MAX) {
		ASSERT(err == -ENOENT);
		return;
	}
	ASSERT(err == 0 && size_bytes == v->size[i]);
	ASSERT(memcmp(bytes, v->bytes[i], size_bytes) == 0);
	free(bytes);
}

static void append_together(struct visitor *v)
{
	char record[RECORD];

	memset(record, 'a' + (int)v->id, sizeof(record));
	GOOD(weka_append(v->client, &v->together.handle, record, sizeof(record)));
}

/* Blocks of its own in a file that all write, whole ones most of the time, and what is there. */
static void write_apart(struct visitor *v)
{
	const uint64_t own_at = (uint64_t)v->id * sizeof(v->own);
	uint64_t at = rand_below(&v->rand, APART_BLOCKS) * WEKA_BLOCK;
	uint64_t bytes = (1 + rand_below(&v->rand, APART_BLOCKS - at / WEKA_BLOCK)) * WEKA_BLOCK;
	uint8_t is[sizeof(v->own)];

	if (rand_below(&v->rand, 4) == 0) {
		at += 100;
		bytes -= 200;
	}
	if (rand_below(&v->rand, 4) == 0) /* as long as it will ever be */
		GOOD(weka_truncate(v->client, &v->apart.handle, CLIENTS * sizeof(v->own)));
	memset(v->own + at, (int)rand_below(&v->rand, 256), bytes);
	GOOD(weka_pwrite(v->client, &v->apart.handle, v->own + at, bytes, own_at + at));
	GOOD(weka_pread(v->client, &v->apart.handle, is, sizeof(is), own_at));
	ASSERT(memcmp(is, v->own, at + bytes) == 0);
}

static void many_path(const struct visitor *v, uint32_t i, char out[32])
{
	snprintf(out, 32, "/of%u/many%u", v->id, i);
}

/* Files of 0 to 5000 bytes, every third of them replaced, every second removed; the others are what
 * was written last. */
static void make_many(struct visitor *v)
{
	static const uint32_t size_of[] = { 0, 100, 900, 5000 };
	const uint32_t count = 3 * rounds;
	uint8_t *bytes = v->bytes[0];
	char path[32];

	for (uint32_t i = 0; i < count + count / 3; i++) {
		const uint32_t n = i < count ? i : 3 * (i - count);

		many_path(v, n, path);
		memset(bytes, (int)(i % 251), BYTES_MAX);
		GOOD(weka_write_file(v->client, path, bytes, size_of[i % 4], NULL));
	}
	for (uint32_t n = 0; n < count; n += 2) {
		many_path(v, n, path);
		GOOD(weka_unlink(v->client, path));
	}
	for (uint32_t n = 0; n < count; n++) {
		const uint32_t i = n % 3 ? n : count + n / 3;
		size_t size_bytes;
		void *is;
		int err;

		many_path(v, n, path);
		err = weka_read_file(v->client, path, &is, &size_bytes);
		ASSERT(err == (n % 2 ? 0 : -ENOENT));
		if (err)
			continue;
		memset(bytes, (int)(i % 251), BYTES_MAX);
		ASSERT(size_bytes == size_of[i % 4] && memcmp(is, bytes, size_bytes) == 0);
		free(is);
	}
}

static void *visit(void *arg)
{
	struct visitor *v = arg;
	char dir[16];

	snprintf(dir, sizeof(dir), "/of%u", v->id);
	GOOD(weka_mkdir(v->client, dir, 0755));
	GOOD(weka_open(v->client, "/together", WEKA_CREATE, 0644, &v->together));
	GOOD(weka_open(v->client, "/apart", WEKA_CREATE, 0644, &v->apart));
	make_many(v);
	for (uint32_t i = 0; i < FILES; i++)
		put_file(v, i);
	for (uint32_t round = 0; round < rounds; round++) {
		uint32_t i = (uint32_t)rand_below(&v->rand, FILES);

		append_together(v);
		write_apart(v);
		if (v->size[i] == UINT32_MAX || rand_below(&v->rand, 4) == 0)
			put_file(v, i);
		else if (rand_below(&v->rand, 4) == 0)
			rename_file(v, i);
		else if (rand_below(&v->rand, 6) == 0)
			remove_file(v, i);
		else
			change_file(v, i);
		for (uint32_t k = 0; k < FILES; k++)
			compare(v, k);
	}
	return NULL;
}

static void come(struct visitor *v, uint32_t id)
{
	/* Nothing here is about deadlines, and TSan takes its time. */
	const struct weka_options options = { .size_bytes = sizeof(options),
					      .connect_timeout_ns = PATIENCE_NS,
					      .timeout_ns = PATIENCE_NS };
	struct weka_key key = { .id = "weka", .secret = secret };
	int err = weka_connect(fab_server_address(srv, id % 2), &key, &options, &v->client);

	if (err)
		fprintf(stderr, "torture_app_cores: %s\n", weka_error(NULL));
	ASSERT(err == 0);
	v->id = id;
	memset(v->own, 0, sizeof(v->own));
	rand_seed(&v->rand, id + 1);
}

/* Checks that each client's records are there, all of them and whole. */
static void check_together(struct visitor *v)
{
	uint32_t count[CLIENTS] = { 0 };
	size_t size_bytes;
	char *bytes;

	GOOD(weka_read_file(v->client, "/together", (void **)&bytes, &size_bytes));
	ASSERT(size_bytes == (size_t)CLIENTS * rounds * RECORD);
	for (size_t at = 0; at < size_bytes; at += RECORD) {
		ASSERT(bytes[at] >= 'a' && bytes[at] < 'a' + CLIENTS);
		for (size_t k = 1; k < RECORD; k++)
			ASSERT(bytes[at + k] == bytes[at]);
		count[bytes[at] - 'a']++;
	}
	for (uint32_t i = 0; i < CLIENTS; i++)
		ASSERT(count[i] == rounds);
	free(bytes);
}

/* spread_at: names; 0: no directory has so many that it is spread.  Returns the changes that a core
 * made in shards that it was lent. */
static uint64_t life(uint64_t cache_bytes, uint32_t early_pages, uint32_t spread_at,
		     uint32_t copies)
{
	static struct visitor visitor[CLIENTS];
	struct app_core_stat stat[CORES];
	pthread_t control;
	uint64_t made = 0, hedged = 0;

	begin(&control, cache_bytes, early_pages, spread_at, copies);
	for (uint32_t i = 0; i < CLIENTS; i++)
		come(&visitor[i], i);
	for (uint32_t i = 0; i < CLIENTS; i++)
		ASSERT(pthread_create(&visitor[i].thread, NULL, visit, &visitor[i]) == 0);
	for (uint32_t i = 0; i < CLIENTS; i++)
		pthread_join(visitor[i].thread, NULL);
	check_together(&visitor[CLIENTS - 1]);
	for (uint32_t i = 0; i < CLIENTS; i++)
		weka_close(visitor[i].client);
	atomic_store(&stop, true);
	(void)!write(run.event_fd, &(uint64_t){ 1 }, sizeof(uint64_t));
	while (atomic_load_explicit(&run.at, memory_order_acquire) != APP_RUN_ENDED)
		usleep(1000);
	for (uint32_t i = 0; i < CORES; i++) {
		app_core_stat(run.thread[i].core, &stat[i]);
		for (uint32_t d = 0; d < DRIVES; d++)
			hedged += run.thread[i].core->hedges.drive[d].hedged;
	}
	end(control);
	ASSERT(run.status == 0);
	for (uint32_t i = 1; i < CORES; i++) /* each had a client, and asked for it */
		ASSERT(stat[i].asked > 0 && stat[i].planned > 0 && stat[i].read_bytes > 0);
	for (uint32_t i = 0; i < CORES; i++)
		made += stat[i].made;
	ASSERT(stat[0].served > 0);
	printf("torture_app_cores: %u clients of %u cores, %u rounds; %llu calls of other cores, "
	       "%llu changes made there, %llu reads hedged\n",
	       CLIENTS, CORES, rounds, (unsigned long long)stat[0].served, (unsigned long long)made,
	       (unsigned long long)hedged);
	return made;
}

/* The schedule decides whether a shard is lent: a life without a loan is lived again. */
static void live(uint64_t cache_bytes, uint32_t early_pages, uint32_t copies)
{
	for (uint32_t lives = 1; life(cache_bytes, early_pages, 0, copies) == 0; lives++)
		ASSERT(lives < LIVES_MAX);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		rounds = (uint32_t)atoi(argv[1]);
	live(8u << 20, 0, 1);
	live(2u << 20, 8, 1);
	(void)life(8u << 20, 8, 3, 1);
	live(8u << 20, 0, 2);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A witness of faults: appends numbered records to a file, several at once, and reads another file
 * of known content, until it is told to stop (SIGTERM); it prints which records were acknowledged.
 * "verify" reads such a file and compares.
 *
 *	fault_client ADDRESS KEY PATH > acknowledged
 *	fault_client ADDRESS KEY PATH verify acknowledged
 *
 * A line of its output is the number of a record, and its status when that came.  The file is right
 * if each record in it is whole and stands there once, and every one with status 0 is there.
 *
 * Many reads end early, by a cancel or a short deadline, and each window is released at once: later
 * writes into it are found with WEKA_POISON_WINDOWS=1 (client-lib/client_poison.c).
 *
 * At the end every lease must be back, without anybody closing the session; stderr has a line "#
 * ..." of counts.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/num.h"
#include "base/rand.h"
#include "client-lib/weka_client.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	FLIGHT = 8, /* appends at once */
	RECORD = 256,
	RECORDS_MAX = 4 << 20,
	READS = 4, /* at once */
	PIECE_MAX = 256 << 10,
	KNOWN_BYTES = 4 << 20,
	PATH_BYTES = 256,
};

static volatile sig_atomic_t told;

static void tell(int signal_number)
{
	told = signal_number;
}

static int fail(struct weka_client *c, const char *what)
{
	fprintf(stderr, "%s: %s\n", what, weka_error(c));
	return 1;
}

/* ---- what is written and read ---------------------------------------------------------- */

static void record_build(uint32_t number, char out[RECORD])
{
	uint32_t sum;

	memset(out, (int)('a' + number % 26), RECORD);
	memcpy(out, &number, sizeof(number));
	sum = crc32c(out, RECORD - sizeof(sum));
	memcpy(out + RECORD - sizeof(sum), &sum, sizeof(sum));
}

/* Word `i` of the file whose every byte is known. */
static uint64_t known_word(uint64_t i)
{
	return (i + 1) * 0x9e3779b97f4a7c15ull;
}

static int known_write(struct weka_client *c, const char *path)
{
	uint64_t *words = malloc(KNOWN_BYTES);
	int err = -ENOMEM;

	for (uint64_t i = 0; words && i < KNOWN_BYTES / sizeof(*words); i++)
		words[i] = known_word(i);
	if (words)
		err = weka_write_file(c, path, words, KNOWN_BYTES, NULL);
	free(words);
	return err;
}

static bool known_is(const uint64_t *words, uint64_t offset_bytes, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes / sizeof(*words); i++)
		if (words[i] != known_word(offset_bytes / sizeof(*words) + i))
			return false;
	return true;
}

/* ---- a client at work ------------------------------------------------------------------ */

struct append {
	struct weka_req req;
	struct weka_window window;
	uint32_t number;
	bool out;
};

struct reading {
	struct weka_req req;
	struct weka_window window;
	uint64_t offset_bytes;
	uint32_t bytes;
	bool out;
};

struct worker {
	struct weka_client *c;
	struct weka_handle log, known;
	struct append append[FLIGHT];
	struct reading reading[READS];
	struct rand_state rand;
	uint32_t next, in_flight;
	uint32_t compared, ended_early;
};

static void append_more(struct worker *w, struct append *a)
{
	a->number = w->next;
	record_build(w->next, a->window.lease->data);
	if (weka_submit_write(w->c, &a->req, &w->log, 0, RECORD, WEKA_APPEND, &a->window))
		return;
	a->out = true;
	w->in_flight++;
	w->next++;
}

static void read_more(struct worker *w, struct reading *r)
{
	static const uint64_t timeouts_ns[] = { 0, 0, NS_PER_MS, 20 * NS_PER_MS };
	uint32_t blocks = 1 + (uint32_t)rand_below(&w->rand, PIECE_MAX / WEKA_BLOCK);

	r->bytes = blocks * WEKA_BLOCK;
	r->offset_bytes = rand_below(&w->rand, KNOWN_BYTES / WEKA_BLOCK - blocks) * WEKA_BLOCK;
	r->window.size_bytes = weka_window_bytes(1, r->bytes);
	r->req.timeout_ns = timeouts_ns[rand_below(&w->rand, ARRAY_LEN(timeouts_ns))];
	if (weka_lease(w->c, r->window.size_bytes, &r->window.lease))
		return; /* those that ended early are not back yet */
	if (weka_submit_read(w->c, &r->req, &w->known, r->offset_bytes, r->bytes, &r->window)) {
		weka_release(w->c, r->window.lease);
		return;
	}
	r->out = true;
	w->in_flight++;
	if (rand_below(&w->rand, 8) == 0) {
		weka_flush(w->c);
		weka_cancel(w->c, &r->req);
	}
}

static void submit(struct worker *w)
{
	for (uint32_t i = 0; i < FLIGHT && w->next < RECORDS_MAX; i++)
		if (!w->append[i].out)
			append_more(w, &w->append[i]);
	for (uint32_t i = 0; i < READS; i++)
		if (!w->reading[i].out)
			read_more(w, &w->reading[i]);
}

/* Compares the bytes of a read, unless it failed or ended early. */
static int reading_done(struct worker *w, struct reading *r)
{
	int status = r->req.status, code = 0;

	if (status == 0 && r->req.length_bytes == r->bytes &&
	    known_is(r->req.data, r->offset_bytes, r->bytes))
		w->compared++;
	else if (status == -ETIMEDOUT || status == -ECANCELED || status == -ECONNRESET)
		w->ended_early++;
	else
		code = fprintf(stderr, "a read of %u bytes at %llu: status %d, %llu came\n",
			       r->bytes, (unsigned long long)r->offset_bytes, status,
			       (unsigned long long)r->req.length_bytes);
	weka_release(w->c, r->window.lease);
	r->out = false;
	return code;
}

static int append_done(struct append *a)
{
	printf("%u %d\n", a->number, a->req.status);
	a->out = false;
	return 0;
}

/* 0, or the appliance is gone for good, or not right. */
static int reap(struct worker *w)
{
	struct weka_req *done[FLIGHT + READS];
	int count = weka_reap(w->c, done, FLIGHT + READS), code = 0;

	for (int k = 0; k < count && !code; k++) {
		uintptr_t at = (uintptr_t)done[k];

		w->in_flight--;
		if (at >= (uintptr_t)w->append && at < (uintptr_t)(w->append + FLIGHT))
			code = append_done(container_of(done[k], struct append, req));
		else
			code = reading_done(w, container_of(done[k], struct reading, req));
	}
	return count < 0 ? fail(w->c, "reap") : code;
}

static struct weka_counters counters_of(const struct weka_client *c)
{
	struct weka_counters n = { .size_bytes = sizeof(n) };

	(void)!weka_get_counters(c, &n);
	return n;
}

/* Leases come back by themselves, those of requests that ended early too: the appliance lets go of
 * them, or their connection has ended. */
static int gives_all_back(struct worker *w)
{
	for (uint32_t i = 0; i < FLIGHT; i++)
		weka_release(w->c, w->append[i].window.lease);
	for (int tenths = 0; tenths < 600 && counters_of(w->c).pool_used_bytes > 0; tenths++) {
		if (reap(w))
			return 1;
		(void)!weka_wait(w->c, 100 * NS_PER_MS);
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	if (counters_of(w->c).pool_used_bytes == 0)
		return 0;
	fprintf(stderr, "%llu bytes of the pool are not back\n",
		(unsigned long long)counters_of(w->c).pool_used_bytes);
	return 1;
}

static int begin(struct worker *w, const char *path)
{
	char known[PATH_BYTES];
	struct weka_attr attr;

	snprintf(known, sizeof(known), "%s.known", path);
	if (known_write(w->c, known) || weka_stat(w->c, known, &attr))
		return fail(w->c, known);
	w->known = attr.handle;
	if (weka_open(w->c, path, WEKA_CREATE, 0644, &attr))
		return fail(w->c, path);
	w->log = attr.handle;
	for (uint32_t i = 0; i < FLIGHT; i++) {
		w->append[i].window.size_bytes = 4096;
		if (weka_lease(w->c, 4096, &w->append[i].window.lease))
			return fail(w->c, "lease");
	}
	return 0;
}

static int work(struct weka_client *c, const char *path)
{
	static struct worker w;
	struct weka_counters n;

	w.c = c;
	rand_seed(&w.rand, 1);
	if (begin(&w, path))
		return 1;
	while (!told || w.in_flight > 0) {
		if (!told)
			submit(&w);
		if (reap(&w))
			return 1;
		(void)!weka_wait(c, 100 * NS_PER_MS);
		/* Load, but not all that the machine can do: others are at work too. */
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	if (gives_all_back(&w))
		return 1;
	n = counters_of(c);
	fprintf(stderr,
		"# %u reads compared, %u ended early; %llu sessions, %llu lanes lost, %llu "
		"replays\n",
		w.compared, w.ended_early, (unsigned long long)n.reconnects,
		(unsigned long long)n.lanes_lost, (unsigned long long)n.replays);
	return 0;
}

/* ---- afterwards ------------------------------------------------------------------------ */

static int verify(struct weka_client *c, const char *path, const char *acknowledged)
{
	uint8_t *seen = calloc(1, RECORDS_MAX);
	FILE *f = fopen(acknowledged, "r");
	uint32_t number, acked = 0, unknown = 0, wrong = 0;
	char want[RECORD], *at;
	size_t size;
	void *bytes;
	int status;

	if (!f || !seen || weka_read_file(c, path, &bytes, &size))
		return fail(c, path);
	wrong += size % RECORD != 0;
	for (at = bytes; at + RECORD <= (char *)bytes + size; at += RECORD) {
		memcpy(&number, at, sizeof(number));
		record_build(number, want);
		if (number >= RECORDS_MAX || memcmp(at, want, RECORD) != 0)
			wrong += fprintf(stderr, "byte %td: no record\n", at - (char *)bytes) > 0;
		else if (seen[number]++)
			wrong += fprintf(stderr, "record %u stands there twice\n", number) > 0;
	}
	while (fscanf(f, "%u %d", &number, &status) == 2) {
		acked += status == 0;
		unknown += status == -ECONNRESET;
		if (status == 0 && !seen[number])
			wrong += fprintf(stderr, "record %u was acknowledged and is not there\n",
					 number) > 0;
	}
	fclose(f);
	free(bytes);
	free(seen);
	printf("%u acknowledged, %u of unknown outcome, %u wrong\n", acked, unknown, wrong);
	return wrong > 0;
}

int main(int argc, char **argv)
{
	/* A silent appliance is given up within 30 s (PROTOCOL.md 7): no append times out
	 * before.  On a busy machine it takes its time to start again. */
	struct weka_options options = { .size_bytes = sizeof(options),
					.pool_bytes = 8 << 20,
					.connect_timeout_ns = 120 * NS_PER_S,
					.timeout_ns = 180 * NS_PER_S,
					.reconnect_ns = 120 * NS_PER_S };
	struct weka_key key = { 0 };
	struct weka_client *c;
	int code;

	if (argc != 4 && argc != 6) {
		fprintf(stderr, "usage: fault_client ADDRESS KEYFILE PATH [verify FILE]\n");
		return 2;
	}
	key.file = argv[2];
	signal(SIGTERM, tell);
	setvbuf(stdout, NULL, _IOLBF, 0); /* what was said stays said when it is killed */
	if (weka_connect(argv[1], &key, &options, &c))
		return fail(NULL, argv[1]);
	code = argc == 6 ? verify(c, argv[3], argv[5]) : work(c, argv[3]);
	weka_close(c);
	return code;
}

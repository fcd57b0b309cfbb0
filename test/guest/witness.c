/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A client that changes files for ever and remembers, where a power cut does not reach, how many
 * changes it was told to be done; and, after the cut, looks whether they are.
 *
 *	witness run ADDRESS KEYFILE WITNESS JOURNAL       sector WITNESS of the file JOURNAL
 *	witness verify ADDRESS KEYFILE WITNESS COUNT      at least COUNT changes are there
 *	witness outlive ADDRESS KEYFILE WITNESS JOURNAL   connections break, processes die
 *	witness steady ADDRESS KEYFILE WITNESS JOURNAL    ... and nothing fails, or takes 10 s
 *
 * Change number N is the same in every run: it follows from WITNESS and N.  Changes are made one by
 * one, so after a cut the store holds exactly what COUNT changes make, or COUNT + 1: the last may
 * have been done without anybody having been told.
 *
 * "outlive" goes on whatever becomes of its connection, compares what it reads meanwhile, and at
 * SIGTERM looks at everything once more; it also gives up reads before they are answered.  A change
 * whose outcome is unknown is looked for: it must have been done once, or not at all.  JOURNAL is a
 * line: changes done, files read and compared, outcomes unknown, reads given up, looks at free
 * windows; one that is started again goes on from the first of these.  "steady" is the same, and
 * ends when one change or read fails or misses its deadline.
 */
#define _GNU_SOURCE
#include "base/le.h"
#include "base/num.h"
#include "base/rand.h"
#include "client-lib/client_internal.h" /* how often it looked for poison */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILES = 48, NAME = 64, SECTOR = 512, SIZE_MAX_BYTES = 300000, GIVEN_UP_BYTES = 1 << 19 };

#define STEADY_NS (10ull * 1000 * 1000 * 1000)
/* The guest of a busy host is slow, and nothing is lost. */
#define PATIENCE_NS (30 * STEADY_NS)

/* The number of the change that wrote each file; 0: the file does not exist. */
struct state {
	uint64_t written_by[FILES];
};

enum what { WRITE, REMOVE, RENAME };

struct change {
	enum what what;
	uint32_t file;
	uint32_t to;
	size_t size_bytes;
};

struct witness {
	struct weka_client *client;
	uint64_t number;
	struct state state;
	char *bytes;
	unsigned int given_up; /* reads, before their answer came */
	bool steady;
};

static struct rand_state of(const struct witness *w, uint64_t n)
{
	struct rand_state r;

	rand_seed(&r, w->number << 40 | n);
	return r;
}

static void name(const struct witness *w, uint32_t file, char out[NAME])
{
	snprintf(out, NAME, "/witness-%llu/file-%u", (unsigned long long)w->number, file);
}

/* Change `n` of a store in `state`: half of all files are small, and most changes are writes. */
static struct change change_of(const struct witness *w, const struct state *state, uint64_t n)
{
	struct rand_state r = of(w, n);
	struct change c = { .file = (uint32_t)rand_below(&r, FILES) };
	uint64_t kind = rand_below(&r, 8);

	c.to = (uint32_t)rand_below(&r, FILES);
	c.size_bytes = rand_below(&r, rand_below(&r, 2) ? 9000 : SIZE_MAX_BYTES);
	if (!state->written_by[c.file] || kind > 1 || (kind == 1 && c.to == c.file))
		c.what = WRITE;
	else
		c.what = kind == 1 ? RENAME : REMOVE;
	return c;
}

static void apply(struct state *s, const struct change *c, uint64_t n)
{
	if (c->what == RENAME)
		s->written_by[c->to] = s->written_by[c->file];
	s->written_by[c->file] = c->what == WRITE ? n : 0;
}

/* The bytes that change `n` wrote. */
static size_t content(const struct witness *w, uint64_t n, char *out)
{
	struct rand_state r = of(w, n);
	static const struct state all = { .written_by = { [0 ... FILES - 1] = 1 } };
	size_t size = change_of(w, &all, n).size_bytes;
	uint64_t word;

	for (size_t at = 0; at < size; at += sizeof(word)) {
		word = rand_u64(&r);
		memcpy(out + at, &word, sizeof(word)); /* there is room for a word more */
	}
	return size;
}

static int fail(const struct witness *w, const char *what)
{
	fprintf(stderr, "witness: %s: %s\n", what, weka_error(w->client));
	return 1;
}

/* ---- run ------------------------------------------------------------------------------------ */

static int do_change(struct witness *w, const struct change *c, uint64_t n)
{
	char path[NAME], to[NAME];

	name(w, c->file, path);
	name(w, c->to, to);
	switch (c->what) {
	case WRITE:
		return weka_write_file(w->client, path, w->bytes, content(w, n, w->bytes), NULL);
	case REMOVE:
		return weka_unlink(w->client, path);
	case RENAME:
		return weka_rename(w->client, path, to);
	}
	return -EINVAL;
}

static int run(struct witness *w, const char *journal)
{
	int fd = open(journal, O_WRONLY | O_DIRECT | O_CLOEXEC);
	char *sector = aligned_alloc(SECTOR, SECTOR), dir[NAME];
	le64 done;

	if (fd < 0 || !sector)
		return fail(w, journal);
	memset(sector, 0, SECTOR);
	snprintf(dir, sizeof(dir), "/witness-%llu", (unsigned long long)w->number);
	if (weka_mkdir(w->client, dir, 0755))
		return fail(w, dir);
	for (uint64_t n = 1;; n++) {
		struct change c = change_of(w, &w->state, n);

		if (do_change(w, &c, n))
			return fail(w, "a change");
		apply(&w->state, &c, n);
		done = le64_of(n);
		memcpy(sector, &done, sizeof(done));
		if (pwrite(fd, sector, SECTOR, (off_t)(w->number * SECTOR)) != SECTOR)
			return fail(w, journal);
	}
}

/* ---- verify
 * --------------------------------------------------------------------------------------- */

/* Does the file hold what change `by` wrote (0: is it not there)? */
static bool holds(struct witness *w, uint64_t by, int err, const char *bytes, size_t size)
{
	if (by == 0)
		return err == -ENOENT;
	if (err)
		return false;
	return content(w, by, w->bytes) == size && memcmp(w->bytes, bytes, size) == 0;
}

/* Is all as `count` changes make it, or one more (*found)? */
static int look_at_all(struct witness *w, uint64_t count, uint64_t *found)
{
	struct state after;
	struct change last;
	bool as_before = true, as_after = true;
	char path[NAME];

	for (uint64_t n = 1; n <= count; n++) {
		last = change_of(w, &w->state, n);
		apply(&w->state, &last, n);
	}
	after = w->state;
	last = change_of(w, &after, count + 1);
	apply(&after, &last, count + 1);
	for (uint32_t i = 0; i < FILES; i++) {
		size_t size = 0;
		void *bytes = NULL;
		int err;

		name(w, i, path);
		err = weka_read_file(w->client, path, &bytes, &size);
		if (!holds(w, w->state.written_by[i], err, bytes, size)) {
			as_before = false;
			if (!holds(w, after.written_by[i], err, bytes, size))
				printf("%s is not as change %llu left it: %s, %zu bytes\n", path,
				       (unsigned long long)w->state.written_by[i],
				       err ? strerror(-err) : "read", size);
		}
		as_after = as_after && holds(w, after.written_by[i], err, bytes, size);
		free(bytes);
	}
	*found = as_before ? count : count + 1;
	if (as_before || as_after)
		return 0;
	printf("witness %llu: neither what %llu changes make, nor one more\n",
	       (unsigned long long)w->number, (unsigned long long)count);
	return 1;
}

static int verify(struct witness *w, uint64_t count)
{
	uint64_t found;

	return look_at_all(w, count, &found);
}

/* ---- outlive -------------------------------------------------------------------------------- */

static volatile sig_atomic_t ended;

static void end(int number)
{
	(void)number;
	ended = 1;
}

/* Prints where `bytes` differ from those of change `by`, and what they are, to help find the
 * cause. */
static void tell(struct witness *w, const char *path, uint64_t by, int err, const char *bytes,
		 size_t size)
{
	size_t want = by ? content(w, by, w->bytes) : 0;

	fprintf(stderr, "witness: %s: %s, %zu bytes, not the %zu of change %llu\n", path,
		err ? strerror(-err) : "read", size, want, (unsigned long long)by);
	if (err)
		fprintf(stderr, "witness: the client says: %s\n", weka_error(w->client));
	size = err ? 0 : min_u64(size, want);
	for (size_t at = 0, end; at < size; at = end + 1) {
		for (end = at; end < size && bytes[end] != w->bytes[end];)
			end++;
		if (end > at + 8)
			fprintf(stderr, "witness:   bytes %zu to %zu are %02x %02x %02x %02x ...\n",
				at, end - 1, (uint8_t)bytes[at], (uint8_t)bytes[at + 1],
				(uint8_t)bytes[at + 2], (uint8_t)bytes[at + 3]);
	}
}

/* Does file `i` hold what `by` wrote?  `why`: say what is not so. */
static bool file_is(struct witness *w, uint32_t i, uint64_t by, bool why)
{
	char path[NAME];
	void *bytes = NULL;
	size_t size = 0;
	bool is;
	int err;

	name(w, i, path);
	err = weka_read_file(w->client, path, &bytes, &size);
	is = holds(w, by, err, bytes, size);
	if (!is && why)
		tell(w, path, by, err, bytes, size);
	free(bytes);
	return is;
}

static int check_file(struct witness *w, uint32_t i)
{
	unsigned long long by = w->state.written_by[i];

	if (file_is(w, i, by, true))
		return 0;
	(void)file_is(w, i, by, true); /* is it so in the store? */
	for (unsigned long long n = 0; n < by; n++)
		if (file_is(w, i, n, false)) {
			fprintf(stderr, "witness: file %u is as change %llu left it, not as %llu\n",
				i, n, by);
			return 1;
		}
	fprintf(stderr, "witness: file %u is not as change %llu, or one before, left it\n", i, by);
	return 1;
}

/* 1: done, 0: not, -1: something else was, or between the two looks it was done. */
static int look_for(struct witness *w, const struct change *c, uint64_t n)
{
	struct state after = w->state;

	apply(&after, c, n);
	if (file_is(w, c->file, after.written_by[c->file], false) &&
	    (c->what != RENAME || file_is(w, c->to, after.written_by[c->to], false)))
		return 1;
	if (file_is(w, c->file, w->state.written_by[c->file], false) &&
	    (c->what != RENAME || file_is(w, c->to, w->state.written_by[c->to], false)))
		return 0;
	return -1;
}

/* The appliance may be at it still, for the connection that broke: then a later look tells. */
static int was_done(struct witness *w, const struct change *c, uint64_t n)
{
	int done = look_for(w, c, n);

	for (int i = 0; i < 20 && done < 0; i++) {
		usleep(100000);
		done = look_for(w, c, n);
	}
	return done;
}

/* Change `n` until it is done. */
static int change_surely(struct witness *w, uint64_t n, unsigned int *unknown)
{
	struct change c = change_of(w, &w->state, n);
	int done = 0;

	while (!done) {
		int err = do_change(w, &c, n);

		if (err && (w->steady || (err != -ECONNRESET && err != -ETIMEDOUT))) {
			fprintf(stderr, "witness: change %llu, of kind %d: %s\n",
				(unsigned long long)n, (int)c.what, strerror(-err));
			fprintf(stderr, "witness: the client says: %s\n", weka_error(w->client));
			return 1;
		}
		done = err ? was_done(w, &c, n) : 1;
		*unknown += err != 0;
	}
	if (done < 0) {
		fprintf(stderr, "witness: change %llu, of kind %d: neither done nor not\n",
			(unsigned long long)n, (int)c.what);
		return 1;
	}
	apply(&w->state, &c, n);
	return 0;
}

/*
 * Asks for file `i`, and gives the answer up before it comes, more often than not: with
 * WEKA_POISON_WINDOWS the library then looks whether it, or what is late of a connection that
 * broke, came into memory that was free already.
 */
static void impatient(struct witness *w, uint32_t i, uint64_t n)
{
	struct weka_window window = { .size_bytes = GIVEN_UP_BYTES };
	struct weka_req req = { .timeout_ns = 1 + n % 4 * 500000 }, *done;
	struct weka_lease *again;
	struct weka_attr attr;
	char path[NAME];

	name(w, i, path);
	if (weka_stat(w->client, path, &attr) ||
	    weka_lease(w->client, GIVEN_UP_BYTES, &window.lease))
		return;
	if (weka_submit_read(w->client, &req, &attr.handle, 0, GIVEN_UP_BYTES / 2, &window) == 0) {
		while (weka_reap(w->client, &done, 1) == 0)
			(void)!weka_wait(w->client, WEKA_FOREVER);
		w->given_up += req.status == -ETIMEDOUT;
	}
	weka_release(w->client, window.lease);
	if (weka_lease(w->client, GIVEN_UP_BYTES, &again) == 0)
		weka_release(w->client, again);
}

static int outlive(struct witness *w, const char *journal)
{
	int fd = open(journal, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	unsigned int reads = 0, unknown = 0;
	char line[96] = "", dir[NAME];
	uint64_t n, found;
	int err;

	snprintf(dir, sizeof(dir), "/witness-%llu", (unsigned long long)w->number);
	err = weka_mkdir(w->client, dir, 0755);
	if (fd < 0 || pread(fd, line, sizeof(line) - 1, 0) < 0 || (err && err != -EEXIST))
		return fail(w, journal);
	signal(SIGTERM, end);
	n = strtoull(line, NULL, 10);
	if (look_at_all(w, n, &found))
		return 1;
	for (n++; !ended; n++) {
		uint32_t i = (uint32_t)(n * 7 % FILES);

		if (n == found) { /* done by one that was killed before it said so */
			struct change c = change_of(w, &w->state, n);

			apply(&w->state, &c, n);
		} else if (change_surely(w, n, &unknown)) {
			return 1;
		}
		if (check_file(w, i))
			return 1;
		impatient(w, i, n);
		snprintf(line, sizeof(line), "%llu %u %u %u %llu\n", (unsigned long long)n, ++reads,
			 unknown, w->given_up, (unsigned long long)w->client->poison_looks);
		if (pwrite(fd, line, strlen(line), 0) < 0)
			return fail(w, journal);
	}
	printf("witness: %s", line);
	for (uint32_t i = 0; i < FILES; i++)
		if (check_file(w, i))
			return 1;
	return 0;
}

int main(int argc, char **argv)
{
	struct witness w = { .number = argc == 6 ? strtoull(argv[4], NULL, 10) : 0 };
	struct weka_options options = { .size_bytes = sizeof(options) };
	struct weka_key key = { 0 };
	int code;

	if (argc != 6) {
		fprintf(stderr, "usage: witness run|verify|outlive|steady ADDRESS KEYFILE WITNESS "
				"JOURNAL|COUNT\n");
		return 2;
	}
	key.file = argv[3];
	w.steady = strcmp(argv[1], "steady") == 0;
	options.timeout_ns = w.steady ? STEADY_NS : PATIENCE_NS;
	options.connect_timeout_ns = options.reconnect_ns = PATIENCE_NS;
	w.bytes = malloc(SIZE_MAX_BYTES + sizeof(uint64_t));
	if (!w.bytes || weka_connect(argv[2], &key, &options, &w.client))
		return fail(&w, "connect");
	if (strcmp(argv[1], "run") == 0)
		code = run(&w, argv[5]);
	else if (w.steady || strcmp(argv[1], "outlive") == 0)
		code = outlive(&w, argv[5]);
	else
		code = verify(&w, strtoull(argv[5], NULL, 10));
	weka_close(w.client);
	free(w.bytes);
	return code;
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Workload "lone": one blocking call at a time, as from a program without batches, beside the same
 * calls on a local file system:
 *
 *   phase     appliance                                local (--vs DIR)
 *   create    weka_open(CREATE | EXCL), close          open, fsync, close
 *   stat      weka_stat                                fstatat
 *   open      weka_open, weka_pread, close             open, read, close
 *   unlink    weka_unlink                              unlinkat, fsync of the directory
 *   write     weka_pwrite, pieces of 1 MiB             pwrite; fsync at the end of the file
 *   record    the same, pieces of 47,008 bytes         the same
 *
 * Files are empty in the first four phases, so that only the round trip and the log are measured.
 * The appliance's changes are durable when the call returns.  The local side's are durable too in
 * create and unlink; its writes become durable together, at the end of the file.
 *
 * Every round runs all phases, so that a machine whose speed drifts changes all of them.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/num.h"
#include "base/rand.h"
#include "bench/bench.h"
#include "bench/bench_env.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE_BYTES  (1u << 20)
#define RECORD_BYTES 47008u /* ior-hard's: never aligned */
#define FILE_BYTES   (64u << 20)

enum lone_phase { LONE_CREATE, LONE_STAT, LONE_OPEN, LONE_UNLINK, LONE_WRITE, LONE_RECORD, LONES };

static const char *const phase_name[LONES] = {
	[LONE_CREATE] = "create", [LONE_STAT] = "stat",   [LONE_OPEN] = "open",
	[LONE_UNLINK] = "unlink", [LONE_WRITE] = "write", [LONE_RECORD] = "record",
};

/* One side: the appliance, or a local directory.  Each call returns 0 or -errno. */
struct side {
	const char *what;
	char dir[256];
	struct weka_client *client; /* NULL: the local side */
	int dir_fd;
	int fd; /* of the large file; -1: not open */
	struct weka_handle handle;
	uint64_t made,
		removed; /* files f0 to f(made - 1) were created, the first `removed` are gone */
	uint64_t at;     /* where the next piece of the large file goes */
	uint8_t *buffer;
	struct rand_state rand;
};

struct lone {
	const struct bench_conf *conf;
	struct bench_env *env;
	struct side ours, local;
	struct bench_result result[LONES];
};

/* ---- one call ------------------------------------------------------------------------------ */

static void path_of(const struct side *s, char out[320], uint64_t i)
{
	snprintf(out, 320, "%s/f%llu", s->dir, (unsigned long long)i);
}

static int ours_create(struct side *s, const char *path)
{
	struct weka_attr attr;
	int err = weka_open(s->client, path, WEKA_CREATE | WEKA_EXCL, 0600, &attr);

	return err ? err : weka_close_file(s->client, &attr.handle);
}

static int local_create(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), err;

	if (fd < 0)
		return -errno;
	err = fsync(fd) ? -errno : 0;
	close(fd);
	return err;
}

static int ours_open(struct side *s, const char *path)
{
	struct weka_attr attr;
	int err = weka_open(s->client, path, 0, 0, &attr);
	int64_t got;

	if (err)
		return err;
	got = weka_pread(s->client, &attr.handle, s->buffer, 4096, 0);
	err = weka_close_file(s->client, &attr.handle);
	return got < 0 ? (int)got : err;
}

static int local_open(struct side *s, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err;

	if (fd < 0)
		return -errno;
	err = read(fd, s->buffer, 4096) < 0 ? -errno : 0;
	close(fd);
	return err;
}

static int one_stat(struct side *s, const char *path)
{
	struct weka_attr attr;
	struct stat st;

	if (s->client)
		return weka_stat(s->client, path, &attr);
	return stat(path, &st) ? -errno : 0;
}

static int one_unlink(struct side *s, const char *path)
{
	if (s->client)
		return weka_unlink(s->client, path);
	return unlink(path) || fsync(s->dir_fd) ? -errno : 0;
}

/* The next piece of the large file, which begins again when it is full. */
static int one_write(struct side *s, uint32_t size)
{
	int64_t put;

	if (s->at + size > FILE_BYTES) {
		s->at = 0;
		if (!s->client && fsync(s->fd))
			return -errno;
	}
	put = s->client ? weka_pwrite(s->client, &s->handle, s->buffer, size, s->at)
			: pwrite(s->fd, s->buffer, size, (off_t)s->at);
	if (put != (int64_t)size)
		return put >= 0 ? -ENOSPC : s->client ? (int)put : -errno;
	s->at += size;
	return 0;
}

/* Returns 1 when the phase has nothing left to do. */
static int one_call(struct side *s, enum lone_phase phase)
{
	char path[320];

	if (phase == LONE_WRITE || phase == LONE_RECORD)
		return one_write(s, phase == LONE_WRITE ? PIECE_BYTES : RECORD_BYTES);
	if (phase == LONE_UNLINK && s->removed == s->made)
		return 1;
	path_of(s, path,
		phase == LONE_CREATE   ? s->made
		: phase == LONE_UNLINK ? s->removed
				       : rand_below(&s->rand, s->made));
	if (phase == LONE_CREATE) {
		s->made++;
		return s->client ? ours_create(s, path) : local_create(path);
	}
	if (phase == LONE_OPEN)
		return s->client ? ours_open(s, path) : local_open(s, path);
	if (phase == LONE_STAT)
		return one_stat(s, path);
	s->removed++;
	return one_unlink(s, path);
}

/* ---- a phase, a round ---------------------------------------------------------------------- */

static int fail(const struct side *s, enum lone_phase phase, int err)
{
	return bench_fail("%s: %s: %s", s->what, phase_name[phase],
			  s->client ? weka_error(s->client) : strerror(-err));
}

static int run_phase(struct side *s, enum lone_phase phase, double seconds, struct bench_run *run)
{
	uint64_t start = clock_now_ns(), end = start + (uint64_t)(seconds * 1e9);
	uint64_t before = start, now = start;
	int err;

	s->at = 0;
	while (now < end && !bench_interrupted()) {
		err = one_call(s, phase);
		if (err == 1)
			break;
		if (err)
			return fail(s, phase, err);
		now = clock_now_ns();
		if (run->hist)
			stat_hist_record(run->hist, now - before);
		before = now;
		run->ops++;
		run->bytes += phase == LONE_WRITE    ? PIECE_BYTES
			      : phase == LONE_RECORD ? RECORD_BYTES
						     : 0;
	}
	if (!s->client && phase >= LONE_WRITE && fsync(s->fd))
		return fail(s, phase, -errno);
	run->ns = clock_now_ns() - start;
	return bench_interrupted() ? bench_fail("interrupted") : 0;
}

/* Removes the remaining files of a round: unlink stops by the clock. */
static int sweep(struct side *s)
{
	while (s->removed < s->made) {
		int err = one_call(s, LONE_UNLINK);

		if (err)
			return fail(s, LONE_UNLINK, err);
	}
	s->made = s->removed = 0;
	return 0;
}

/* Round `number` of those that count; -1: the warm-up. */
static int run_round(struct lone *l, int number)
{
	double seconds = l->conf->seconds;
	int err = 0;

	for (enum lone_phase p = 0; !err && p < LONES; p++) {
		struct bench_result *r = &l->result[p];
		struct bench_run ours = { .hist = number < 0 ? NULL : &r->hist }, local = { 0 };

		err = run_phase(&l->ours, p, seconds, &ours);
		if (!err && l->conf->vs_dir)
			err = run_phase(&l->local, p, seconds, &local);
		if (!err && (ours.ops == 0 || (l->conf->vs_dir && local.ops == 0)))
			err = bench_fail("nothing was done: --seconds is too short");
		if (err || number < 0)
			continue;
		r->ops += ours.ops;
		r->ops_per_s[number] = bench_rate(&ours);
		r->bytes_per_s[number] = (double)ours.bytes * 1e9 / (double)ours.ns;
		if (l->conf->vs_dir)
			r->ratio[BENCH_VS_POSIX][number] = bench_rate(&ours) / bench_rate(&local);
	}
	if (!err)
		err = sweep(&l->ours);
	return err || !l->conf->vs_dir ? err : sweep(&l->local);
}

/* ---- beginning and end --------------------------------------------------------------------- */

static int open_ours(struct lone *l)
{
	struct weka_options o = { .size_bytes = sizeof(o), .pool_bytes = 16u << 20 };
	struct side *s = &l->ours;
	struct weka_attr attr;
	char path[320];
	int err = bench_env_open(&l->env, l->conf);

	bench_pin(l->conf->core_client);
	if (!err)
		err = bench_env_connect(l->env, 0, &o, &s->client);
	if (err)
		return err;
	s->what = "appliance";
	snprintf(s->dir, sizeof(s->dir), "%s/weka-bench.%d", l->conf->prefix, (int)getpid());
	snprintf(path, sizeof(path), "%s/large", s->dir);
	if (weka_mkdir(s->client, s->dir, 0700) ||
	    weka_open(s->client, path, WEKA_CREATE | WEKA_EXCL, 0600, &attr))
		return bench_fail("%s: %s", s->dir, weka_error(s->client));
	s->handle = attr.handle;
	return 0;
}

static int open_local(struct lone *l)
{
	struct side *s = &l->local;

	s->dir_fd = s->fd = -1;
	if (!l->conf->vs_dir)
		return 0;
	s->what = l->conf->vs_dir;
	snprintf(s->dir, sizeof(s->dir), "%.200s/weka-bench.%d", l->conf->vs_dir, (int)getpid());
	if (mkdir(s->dir, 0700))
		return bench_fail("%s: %s", s->dir, strerror(errno));
	s->dir_fd = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dir_fd >= 0)
		s->fd = openat(s->dir_fd, "large", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	return s->fd < 0 ? bench_fail("%s: %s", s->dir, strerror(errno)) : 0;
}

static int open_lone(struct lone *l)
{
	struct side *side[2] = { &l->ours, &l->local };

	for (uint32_t i = 0; i < 2; i++) {
		rand_seed(&side[i]->rand, 6);
		side[i]->buffer = aligned_alloc(BLOCK_SIZE, PIECE_BYTES);
		if (!side[i]->buffer)
			return bench_fail("out of memory");
		for (uint32_t b = 0; b < PIECE_BYTES; b++)
			side[i]->buffer[b] = (uint8_t)rand_u64(&side[i]->rand);
	}
	for (enum lone_phase p = 0; p < LONES; p++) {
		l->result[p] = (struct bench_result){ .conf = l->conf,
						      .workload = phase_name[p],
						      .runs = l->conf->runs };
		stat_hist_reset(&l->result[p].hist);
	}
	return 0;
}

static int close_lone(struct lone *l, int err)
{
	struct side *s = &l->local;

	if (l->ours.client && weka_rmtree(l->ours.client, l->ours.dir) && !err)
		err = bench_fail("%s: %s", l->ours.dir, weka_error(l->ours.client));
	weka_close(l->ours.client);
	if (s->fd >= 0) {
		close(s->fd);
		(void)unlinkat(s->dir_fd, "large", 0);
	}
	if (s->dir_fd >= 0) {
		for (; s->removed < s->made; s->removed++) {
			char path[320];

			path_of(s, path, s->removed);
			(void)unlink(path);
		}
		close(s->dir_fd);
		(void)rmdir(s->dir);
	}
	err |= bench_env_close(l->env);
	free(l->ours.buffer);
	free(s->buffer);
	free(l);
	return err;
}

int bench_workload_lone(const struct bench_conf *conf)
{
	struct lone *l = calloc(1, sizeof(*l));
	int err;

	if (!l)
		return bench_fail("out of memory");
	l->conf = conf;
	l->local.dir_fd = l->local.fd = -1;
	err = open_lone(l);
	if (!err)
		err = open_ours(l);
	if (!err)
		err = open_local(l);
	for (int i = -1; !err && i < (int)conf->runs; i++)
		err = run_round(l, i);
	for (enum lone_phase p = 0; !err && p < LONES; p++) {
		l->result[p].transport = bench_env_transport(l->env, 0);
		bench_report(&l->result[p]);
	}
	return close_lone(l, err);
}

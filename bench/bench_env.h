/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The appliance that is measured: one of our own on fresh drives, or running ones. */
#ifndef BENCH_ENV_H
#define BENCH_ENV_H

#include "base/assert.h"
#include "client-lib/weka_client.h"

#include <stdbool.h>
#include <stdint.h>

struct bench_conf;
struct bench_env;

/**
 * bench_env_open - start an appliance, unless conf says --connect
 *
 * Call it before this thread is pinned: the appliance's threads begin where we may run.
 *
 * Owns:    the caller ends it with bench_env_close(), after its clients.
 * Errors:  1, after a line on stderr.
 */
must_check int bench_env_open(struct bench_env **out, const struct bench_conf *conf);

/* How many addresses there are to measure: 1, or as many as --connect was given. */
uint32_t bench_env_count(const struct bench_env *env);

/* "shm", "tcp", "tls" or "rdma": how address `i` is reached. */
const char *bench_env_transport(const struct bench_env *env, uint32_t i);

/* The process of the appliance that was started; 0: it runs elsewhere. */
int bench_env_pid(const struct bench_env *env);

/* A session with address `i`; 1, after a line on stderr. */
must_check int bench_env_connect(struct bench_env *env, uint32_t i,
				 const struct weka_options *options, struct weka_client **out);

/* Cuts the file of one of its own drives to nothing. */
must_check int bench_env_break_drive(struct bench_env *env, uint32_t drive);

/* It reads its configuration, with what conf->lines says now, again.  Over shm only: another
 * transport gets another port. */
must_check int bench_env_reload(struct bench_env *env);

/* A line about the memory of the appliance that we started; that of others is not known. */
void bench_env_tell_memory(const struct bench_env *env, struct weka_client *client, bool json);

/* Stops the appliance and removes its files.  1 when the appliance did not end well. */
int bench_env_close(struct bench_env *env);

#endif

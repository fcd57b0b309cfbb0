/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A measured figure: the values of its runs, and all that one must know about them.  Every command
 * that compares storage prints figures, for people or as one JSON object a line, which `weka-bench
 * report` reads.
 */
#ifndef BENCH_REPORT_FIGURE_H
#define BENCH_REPORT_FIGURE_H

#include "base/assert.h"
#include "bench/target/target.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { FIGURE_RUNS_MAX = 99 };

struct figure {
	char group[32];  /* of figures that stand together: "small files" */
	char name[64];   /* "open, read, close of 4 KiB"                  */
	char target[96]; /* "weka:shm"                                    */
	char unit[24];   /* "files/s"                                     */
	bool less;       /* less is better: times                         */
	double value[FIGURE_RUNS_MAX];
	uint32_t count;
	double cpu_client, cpu_server; /* processors in use; below 0: not known */
	double cpu_other;              /* by all else, the kernel's threads too  */
	double p50_ms, p99_ms;         /* of a request; 0: not measured         */
	double ideal;                  /* the value by arithmetic; 0: none      */
	char promise[160];             /* "durable: each change; cache: none"   */
	char note[200];                /* "": nothing to say                    */
	char command[320];             /* makes it again                        */
};

/* The machine of some figures. */
struct figure_head {
	char machine[128];
	char kernel[64];
	char commit[64];
	char date[32];
	char load[64]; /* of the machine when they began */
};

/* Machine, kernel, commit and load, now. */
void figure_head_now(struct figure_head *out);
void figure_head_print(const struct figure_head *h, bool json, FILE *to);
/* A JSON object with a line end, or a line for people. */
void figure_print(const struct figure *f, bool json, FILE *to);
/* Parses a line of such output: 0: another line, 1: a head, 2: a figure. */
int figure_parse(const char *line, struct figure_head *head, struct figure *out);

double figure_median(const struct figure *f);
double figure_least(const struct figure *f);
double figure_most(const struct figure *f);
/* The larger distance of a run from the median, over the median. */
double figure_spread(const struct figure *f);

/* "4.21 GB/s", "686 K files/s": into 48 bytes, which it returns. */
const char *figure_amount(const struct figure *f, double v, char out[48]);

void figure_set_promise(struct figure *f, const struct target *t);

/* Processors that this process, and a server, have used since begin. */
struct figure_cpu {
	int server_pid;
	uint64_t began_ns, client_ns, server_ns, all_ns;
};
void figure_cpu_begin(struct figure_cpu *c, int server_pid);
void figure_cpu_end(const struct figure_cpu *c, struct figure *out);

#endif

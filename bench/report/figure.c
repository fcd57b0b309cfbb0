/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Figures as text, as JSON, and back. */
#include "bench/report/figure.h"
#include "base/clock.h"
#include "base/version.h"
#include "bench/bench.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

double figure_median(const struct figure *f)
{
	return f->count ? bench_median(f->value, f->count) : 0;
}

double figure_least(const struct figure *f)
{
	double v = f->count ? f->value[0] : 0;

	for (uint32_t i = 1; i < f->count; i++)
		v = fmin(v, f->value[i]);
	return v;
}

double figure_most(const struct figure *f)
{
	double v = f->count ? f->value[0] : 0;

	for (uint32_t i = 1; i < f->count; i++)
		v = fmax(v, f->value[i]);
	return v;
}

double figure_spread(const struct figure *f)
{
	double median = figure_median(f);

	if (median == 0)
		return 0;
	return fmax(figure_most(f) - median, median - figure_least(f)) / fabs(median);
}

void figure_set_promise(struct figure *f, const struct target *t)
{
	const struct target_promise *p = target_promise(t);

	snprintf(f->target, sizeof(f->target), "%s", target_name(t));
	snprintf(f->promise, sizeof(f->promise),
		 "durable: %s; cache: %s; checksums: %s; "
		 "encrypted: %s",
		 p->durable, p->cache, p->checksums, p->encrypted);
}

/* ---- the processors that were in use ---------------------------------------------------- */

static uint64_t process_cpu_ns(int pid)
{
	unsigned long long user = 0, system = 0;
	char path[64], line[1024], *at;
	FILE *f;

	if (pid <= 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	at = f && fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	if (at)
		(void)sscanf(at, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
			     &system);
	if (f)
		fclose(f);
	return (user + system) * (NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* The time that all processors worked, whoever asked for it. */
static uint64_t machine_cpu_ns(void)
{
	unsigned long long v[8] = { 0 };
	FILE *f = fopen("/proc/stat", "re");

	if (f && fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2],
			&v[3], &v[4], &v[5], &v[6], &v[7]) != 8)
		memset(v, 0, sizeof(v));
	if (f)
		fclose(f); /* user, nice, system; not idle and iowait; irq, softirq */
	return (v[0] + v[1] + v[2] + v[5] + v[6]) * (NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));
}

void figure_cpu_begin(struct figure_cpu *c, int server_pid)
{
	c->server_pid = server_pid;
	c->began_ns = clock_now_ns();
	c->client_ns = clock_cpu_ns();
	c->server_ns = process_cpu_ns(server_pid);
	c->all_ns = machine_cpu_ns();
}

void figure_cpu_end(const struct figure_cpu *c, struct figure *out)
{
	double ns = (double)(clock_now_ns() - c->began_ns);

	out->cpu_client = (double)(clock_cpu_ns() - c->client_ns) / ns;
	out->cpu_server = -1;
	if (c->server_pid > 0)
		out->cpu_server = (double)(process_cpu_ns(c->server_pid) - c->server_ns) / ns;
	out->cpu_other = (double)(machine_cpu_ns() - c->all_ns) / ns - out->cpu_client -
			 fmax(out->cpu_server, 0);
	out->cpu_other = fmax(out->cpu_other, 0);
}

/* ---- the machine ------------------------------------------------------------------------- */

static void first_line(const char *path, const char *format, char *out)
{
	char line[256];
	FILE *f = fopen(path, "re");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, format, out) == 1)
			break;
	if (f)
		fclose(f);
}

void figure_head_now(struct figure_head *out)
{
	char cpu[64] = "unknown processor", utc[CLOCK_TEXT];
	long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
	struct utsname u;

	memset(out, 0, sizeof(*out));
	uname(&u);
	first_line("/proc/cpuinfo", "model name : %63[^\n]", cpu);
	first_line("/proc/loadavg", "%63[^\n]", out->load);
	snprintf(out->machine, sizeof(out->machine), "%s, %ld processors, %ld GiB", cpu,
		 sysconf(_SC_NPROCESSORS_ONLN), (pages / 1024 * page_bytes) >> 20);
	snprintf(out->kernel, sizeof(out->kernel), "Linux %.50s", u.release);
	snprintf(out->commit, sizeof(out->commit), "%s %s", version_commit, version_variant);
	clock_print_utc(utc, clock_wall_ns());
	snprintf(out->date, sizeof(out->date), "%s", utc);
}

void figure_head_print(const struct figure_head *h, bool json, FILE *to)
{
	json_t *o;

	if (!json) {
		fprintf(to, "# %s, %s; commit %s; %s; load %s\n", h->machine, h->kernel, h->commit,
			h->date, h->load);
		return;
	}
	o = json_pack("{s:s,s:s,s:s,s:s,s:s}", "machine", h->machine, "kernel", h->kernel, "commit",
		      h->commit, "date", h->date, "load", h->load);
	if (o)
		json_dumpf(o, to, JSON_COMPACT);
	fputc('\n', to);
	json_decref(o);
	fflush(to);
}

/* ---- a figure ------------------------------------------------------------------------------ */

static void print_json(const struct figure *f, FILE *to)
{
	json_t *values = json_array();
	json_t *o;

	for (uint32_t i = 0; i < f->count; i++)
		json_array_append_new(values, json_real(f->value[i]));
	o = json_pack("{s:s,s:s,s:s,s:s,s:s,s:f,s:f,s:f,s:o,s:f,s:f,s:f,s:f,s:f,s:s,s:s,s:s}",
		      "group", f->group, "figure", f->name, "target", f->target, "unit", f->unit,
		      "better", f->less ? "less" : "more", "median", figure_median(f), "least",
		      figure_least(f), "most", figure_most(f), "values", values, "cpu_client",
		      f->cpu_client, "cpu_server", f->cpu_server, "cpu_other", f->cpu_other,
		      "p50_ms", f->p50_ms, "p99_ms", f->p99_ms, "promise", f->promise, "note",
		      f->note, "command", f->command);
	if (o && f->ideal > 0)
		json_object_set_new(o, "ideal", json_real(f->ideal));
	if (o)
		json_dumpf(o, to, JSON_COMPACT | JSON_REAL_PRECISION(9));
	fputc('\n', to);
	json_decref(o);
	fflush(to);
}

const char *figure_amount(const struct figure *f, double v, char out[48])
{
	char human[16];

	snprintf(out, 48, "%s%s%s", bench_human(human, v), strcmp(f->unit, "B/s") ? " " : "",
		 f->unit);
	return out;
}

void figure_print(const struct figure *f, bool json, FILE *to)
{
	char median[48], least[16], most[16];

	if (json) {
		print_json(f, to);
		return;
	}
	fprintf(to, "%-38s %-22s %18s (%s to %s)", f->name, f->target,
		figure_amount(f, figure_median(f), median), bench_human(least, figure_least(f)),
		bench_human(most, figure_most(f)));
	if (f->p99_ms > 0)
		fprintf(to, "  p50 %.3g p99 %.3g ms", f->p50_ms, f->p99_ms);
	if (f->cpu_client > 0)
		fprintf(to, "  cpu %.2f", f->cpu_client);
	if (f->cpu_server >= 0)
		fprintf(to, " + %.2f", f->cpu_server);
	if (f->cpu_other >= 0.3)
		fprintf(to, " (others %.2f)", f->cpu_other);
	if (f->ideal > 0)
		fprintf(to, "  by arithmetic %.3g", f->ideal);
	if (f->note[0])
		fprintf(to, "  %s", f->note);
	fputc('\n', to);
	fflush(to);
}

static void text_of(const json_t *o, const char *name, char *out, size_t size)
{
	const char *s = json_string_value(json_object_get(o, name));

	snprintf(out, size, "%s", s ? s : "");
}

static double number_of(const json_t *o, const char *name, double without)
{
	const json_t *v = json_object_get(o, name);

	return json_is_number(v) ? json_number_value(v) : without;
}

static bool take_figure(const json_t *o, struct figure *f)
{
	const json_t *values = json_object_get(o, "values");
	size_t n = json_array_size(values);

	if (n == 0 || n > FIGURE_RUNS_MAX)
		return false;
	memset(f, 0, sizeof(*f));
	text_of(o, "group", f->group, sizeof(f->group));
	text_of(o, "figure", f->name, sizeof(f->name));
	text_of(o, "target", f->target, sizeof(f->target));
	text_of(o, "unit", f->unit, sizeof(f->unit));
	text_of(o, "promise", f->promise, sizeof(f->promise));
	text_of(o, "note", f->note, sizeof(f->note));
	text_of(o, "command", f->command, sizeof(f->command));
	f->less = strcmp(json_string_value(json_object_get(o, "better")) ?: "", "less") == 0;
	f->cpu_client = number_of(o, "cpu_client", -1);
	f->cpu_server = number_of(o, "cpu_server", -1);
	f->cpu_other = number_of(o, "cpu_other", 0);
	f->p50_ms = number_of(o, "p50_ms", 0);
	f->p99_ms = number_of(o, "p99_ms", 0);
	f->ideal = number_of(o, "ideal", 0);
	for (size_t i = 0; i < n; i++)
		f->value[i] = json_number_value(json_array_get(values, i));
	f->count = (uint32_t)n;
	return f->name[0] && f->target[0];
}

int figure_parse(const char *line, struct figure_head *head, struct figure *out)
{
	json_t *o = json_loads(line, 0, NULL);
	int kind = 0;

	if (json_object_get(o, "figure")) {
		kind = take_figure(o, out) ? 2 : 0;
	} else if (json_object_get(o, "machine")) {
		text_of(o, "machine", head->machine, sizeof(head->machine));
		text_of(o, "kernel", head->kernel, sizeof(head->kernel));
		text_of(o, "commit", head->commit, sizeof(head->commit));
		text_of(o, "date", head->date, sizeof(head->date));
		text_of(o, "load", head->load, sizeof(head->load));
		kind = 1;
	}
	json_decref(o);
	return kind;
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#define _GNU_SOURCE
#include "appliance/host/app_machine.h"
#include "appliance/http/app_http.h"
#include "appliance/core/app_account.h"
#include "base/log.h"
#include "base/num.h"
#include "fabric/fab.h"
#include "nvme/nvme.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- CPUs ------------------------------------------------------------------------------------ */

/* Prints "0-3,7". */
static void print_cpus(char *out, size_t size, const cpu_set_t *cpus)
{
	size_t at = 0;

	out[0] = '\0';
	for (int i = 0; i < CPU_SETSIZE && at < size; i++) {
		const int first = i;

		if (!CPU_ISSET((size_t)i, cpus))
			continue;
		while (i + 1 < CPU_SETSIZE && CPU_ISSET((size_t)i + 1, cpus))
			i++;
		at += (size_t)snprintf(out + at, size - at, "%s%d", at ? "," : "", first);
		if (i > first && at < size)
			at += (size_t)snprintf(out + at, size - at, "-%d", i);
	}
}

/* Pins this thread there and back. */
static bool can_pin(int cpu, const cpu_set_t *back)
{
	cpu_set_t one;
	bool can;

	CPU_ZERO(&one);
	CPU_SET((size_t)cpu, &one);
	can = sched_setaffinity(0, sizeof(one), &one) == 0;
	return sched_setaffinity(0, sizeof(*back), back) == 0 && can;
}

/* Picks CPUs from the highest available (auto), or from the configured one, downwards.  If no CPU
 * would be left for other processes, auto pins no thread. */
void app_machine_cpus(const struct app_conf *c, int picked[APP_CORES_MAX])
{
	uint32_t count = 0;
	cpu_set_t cpus;

	for (uint32_t i = 0; i < APP_CORES_MAX; i++)
		picked[i] = -1;
	if (c->core == APP_CORE_NONE || sched_getaffinity(0, sizeof(cpus), &cpus))
		return;
	if (c->core == APP_CORE_AUTO && (uint64_t)CPU_COUNT(&cpus) < c->cores + (c->cores == 1))
		return;
	for (int i = c->core == APP_CORE_AUTO ? CPU_SETSIZE - 1 : (int)c->core;
	     i >= 0 && count < c->cores; i--)
		if (CPU_ISSET((size_t)i, &cpus) || c->core == (uint64_t)i)
			picked[count++] = i;
}

static int check_cpus(const struct app_conf *c, char *why)
{
	int picked[APP_CORES_MAX];
	char may[64], text[256];
	cpu_set_t cpus;

	if (c->core == APP_CORE_NONE || sched_getaffinity(0, sizeof(cpus), &cpus))
		return 0;
	print_cpus(may, sizeof(may), &cpus);
	if ((uint64_t)CPU_COUNT(&cpus) < c->cores) {
		snprintf(text, sizeof(text),
			 "%llu polling threads need a CPU each, and the daemon may use %d (%s); "
			 "core = none lets them share",
			 (unsigned long long)c->cores, CPU_COUNT(&cpus), may);
		app_conf_blame(c, APP_CONF_CORES, why, text);
		return -EINVAL;
	}
	app_machine_cpus(c, picked);
	for (uint32_t i = 0; i < c->cores && c->core != APP_CORE_AUTO; i++) {
		if (picked[i] >= 0 && can_pin(picked[i], &cpus))
			continue;
		if (picked[i] >= 0)
			snprintf(text, sizeof(text), "the daemon may not use CPU %d; it may use %s",
				 picked[i], may);
		else
			snprintf(text, sizeof(text),
				 "from CPU %llu downwards there are fewer than cores = %llu that "
				 "the daemon may use; there are %s",
				 (unsigned long long)c->core, (unsigned long long)c->cores, may);
		app_conf_blame(c, APP_CONF_CORE, why, text);
		return -EINVAL;
	}
	return 0;
}

/* ---- memory, descriptors --------------------------------------------------------------------- */

/* Clients' memory is taken as they come; the rest at the start. */
static int check_memory(const struct app_conf *c, const struct app_account *a, char *why)
{
	const uint64_t has = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGE_SIZE);
	const uint64_t later =
		app_account_part(a, APP_ACCOUNT_SESSIONS) + app_account_part(a, APP_ACCOUNT_POOLS);
	const uint64_t wants = app_account_total(a) - later;
	const bool cache = app_account_part(a, APP_ACCOUNT_CACHE) >= wants / 2;
	char text[256];

	if (wants <= has)
		return 0;
	snprintf(text, sizeof(text),
		 "the start takes %llu MiB of memory (cache %llu, staging of all cores %llu), and "
		 "this machine has %llu MiB",
		 (unsigned long long)(wants >> 20),
		 (unsigned long long)(app_account_part(a, APP_ACCOUNT_CACHE) >> 20),
		 (unsigned long long)(app_account_part(a, APP_ACCOUNT_STAGING) >> 20),
		 (unsigned long long)(has >> 20));
	app_conf_blame(c, cache ? APP_CONF_CACHE : APP_CONF_STAGING, why, text);
	return -ENOMEM;
}

int app_machine_check(const struct app_conf *conf, const struct app_account *account, char *why)
{
	int err = check_cpus(conf, why);

	return err ? err : check_memory(conf, account, why);
}

void app_machine_files(const struct app_conf *c)
{
	/* A client over shm has four; a drive and a core have some each. */
	const uint64_t http = c->metrics[0] ? APP_HTTP_CONNECTIONS_MAX : 0;
	const uint64_t wanted = 4 * c->sessions_max + 16 * c->cores + 16 * c->ndrives + 64 + http;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= wanted)
		return;
	limit.rlim_cur = min_u64(wanted, limit.rlim_max);
	if (setrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur < wanted)
		log_warn("WEKA-101: %llu descriptors are too few for sessions_max = %llu "
			 "clients: up to %llu are needed; raise LimitNOFILE= (ulimit -n), or "
			 "lower sessions_max",
			 (unsigned long long)limit.rlim_cur, (unsigned long long)c->sessions_max,
			 (unsigned long long)wanted);
}

/* ---- drives, addresses ----------------------------------------------------------------------- */

static int look_address(const struct app_conf *c, const char *key, const char *address, FILE *notes,
			char *why)
{
	char line[256];
	int err = fab_address_look(address, line);

	if (err == -EADDRNOTAVAIL)
		fprintf(notes, "%s: %s = %s: the start would wait for it\n", c->file, key, line);
	else if (err == -EADDRINUSE)
		fprintf(notes, "%s: %s = %s: by the daemon that runs now, or the start fails\n",
			c->file, key, line);
	else if (err)
		app_conf_blame(c, APP_CONF_LISTEN, why, line);
	return err == -EADDRNOTAVAIL || err == -EADDRINUSE ? 0 : err;
}

/* With allow_missing as many drives as it names may be missing; the start finds out which. */
static int look_drives(const struct app_conf *c, FILE *notes, char *why)
{
	uint32_t left_outs = 0;
	char line[NVME_ERR_TEXT];

	for (uint32_t i = 0; i < c->ndrives; i++) {
		const int err = nvme_name_look(c->drive[i], line, sizeof(line));

		if (!err)
			continue;
		if (left_outs >= app_conf_drives_named(c->allow_missing) || c->ndrives == 1) {
			app_conf_blame(c, APP_CONF_DRIVE, why, line);
			return err;
		}
		fprintf(notes, "%s: drive = %s: the start leaves it out (allow_missing = %s)\n",
			c->file, line, c->allow_missing);
		left_outs++;
	}
	return 0;
}

int app_machine_look(const struct app_conf *conf, FILE *notes, char *why)
{
	char metrics[APP_CONF_TEXT_MAX + 8];
	int err = look_drives(conf, notes, why);

	for (uint32_t i = 0; i < conf->nlisten && !err; i++)
		err = look_address(conf, "listen", conf->listen[i], notes, why);
	if (err || !conf->metrics[0])
		return err;
	snprintf(metrics, sizeof(metrics), "tcp://%s", conf->metrics);
	return look_address(conf, "metrics", metrics, notes, why);
}

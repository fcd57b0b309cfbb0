/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* wekactl jobs: what clients report of the epochs that they read, from the appliance's status. */
#include "appliance/ctl/ctl.h"
#include "appliance/ctl/ctl_rates.h"
#include "appliance/ctl/ctl_status_text.h"
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>

static double share(const json_t *job, const char *part, const char *whole)
{
	const double of = (double)ctl_num(job, NULL, whole);

	return of > 0 ? 100.0 * (double)ctl_num(job, NULL, part) / of : 0;
}

static const char *text_of(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));

	return text ? text : "-";
}

static void print_job(const json_t *client, const json_t *job)
{
	char rank[32];

	snprintf(rank, sizeof(rank), "%llu/%llu", (unsigned long long)ctl_num(job, NULL, "rank"),
		 (unsigned long long)ctl_num(job, NULL, "world"));
	printf("%-20.20s %9s %5.1f %% %8.1f %% %8s %-12.12s %s\n", text_of(job, "dataset"), rank,
	       share(job, "samples", "samples_total"), share(job, "waited_ns", "open_ns"),
	       ctl_duration(ctl_num(job, NULL, "report_age_ns") / NS_PER_S).s,
	       text_of(client, "key"), text_of(client, "peer"));
	printf("    %s\n", text_of(job, "verdict"));
}

static void print_json(const json_t *client, json_t *job)
{
	json_t *o = json_deep_copy(job);

	json_object_set(o, "session", json_object_get(client, "session"));
	json_object_set(o, "key", json_object_get(client, "key"));
	json_object_set(o, "peer", json_object_get(client, "peer"));
	json_dumpf(o, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER);
	printf("\n");
	json_decref(o);
}

static void print_all(const struct ctl *c, const json_t *clients)
{
	bool first = true;
	json_t *client;
	size_t i;

	json_array_foreach(clients, i, client)
	{
		json_t *job = json_object_get(client, "job");

		if (!job)
			continue;
		if (first && !c->json)
			printf("%-20s %9s %7s %10s %8s %-12s %s\n", "dataset", "rank", "read",
			       "waited", "said", "key", "from");
		first = false;
		if (c->json)
			print_json(client, job);
		else
			print_job(client, job);
	}
	if (first && !c->json)
		printf("no client reports a job\n");
}

int ctl_cmd_jobs(struct ctl *c)
{
	char why[CTL_STATUS_WHY], *text;
	const json_t *clients;
	json_t *status;

	if (ctl_status_get(c, &text, &status, why))
		return ctl_fail("%s", why);
	free(text);
	clients = json_object_get(status, "clients");
	if (!json_is_array(clients)) {
		json_decref(status);
		return ctl_fail("jobs: this key may not see who is connected: one without a user "
				"may");
	}
	print_all(c, clients);
	json_decref(status);
	return 0;
}

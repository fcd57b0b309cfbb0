/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* wekactl clients: who is connected, from the appliance's status. */
#include "appliance/ctl/ctl.h"
#include "appliance/ctl/ctl_rates.h"
#include "appliance/ctl/ctl_status_text.h"

#include <stdlib.h>

static void print_client(const struct ctl_client *c)
{
	printf("%-12.12s %-4.4s %5u %11s %8s %9s %9s %4llu/%-4llu %s\n", *c->key.s ? c->key.s : "-",
	       c->transport.s, c->connections, ctl_duration(c->connected_s).s,
	       ctl_count((double)c->requests).s, ctl_short_bytes((double)c->read_bytes).s,
	       ctl_short_bytes((double)c->written_bytes).s,
	       (unsigned long long)(c->running + c->queued), (unsigned long long)c->credits,
	       c->peer.s);
}

static void print_table(const json_t *status, const struct ctl_client *clients, uint32_t count)
{
	const uint64_t left_out = ctl_num(status, NULL, "clients_left_out");

	printf("%-12s %-4s %5s %11s %8s %9s %9s %-9s %s\n", "key", "over", "lanes", "connected",
	       "requests", "read", "written", "busy", "from");
	for (uint32_t i = 0; i < count; i++)
		print_client(&clients[i]);
	if (left_out)
		printf("and %llu connections more\n", (unsigned long long)left_out);
}

static void print_json(const struct ctl_client *client)
{
	json_t *o = ctl_client_json(client);

	json_dumpf(o, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER);
	printf("\n");
	json_decref(o);
}

int ctl_cmd_clients(struct ctl *c)
{
	char why[CTL_STATUS_WHY], *text;
	struct ctl_client *clients;
	json_t *status;
	uint32_t count;

	if (ctl_status_get(c, &text, &status, why))
		return ctl_fail("%s", why);
	free(text);
	if (!json_is_array(json_object_get(status, "clients"))) {
		json_decref(status);
		return ctl_fail("clients: this key may not see who is connected: one without a "
				"user may");
	}
	count = ctl_clients_of(status, NULL, &clients);
	ctl_clients_sort(clients, count, CTL_BY_KEY);
	if (!c->json)
		print_table(status, clients, count);
	for (uint32_t i = 0; c->json && i < count; i++)
		print_json(&clients[i]);
	free(clients);
	json_decref(status);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The network of a world: the appliance and its client are two hosts.  It is made again whenever
 * the power comes back; bytes in transit are gone then, like their sender.
 */
#include "test/sim/sim_lan.h"
#include "base/num.h"
#include "test/lib/sim_sock.h"

#define APPLIANCE 1u
#define CLIENT    2u
#define BEGINS_NS UINT64_C(2000000) /* the network's own time begins before */

static void lan_as(struct sim_world *w, bool client)
{
	sim_sock_use(w->net);
	sim_sock_as(client ? CLIENT : APPLIANCE);
}

static void lan_time(struct sim_world *w)
{
	sim_sock_time(w->power.now_ns);
}

static uint64_t lan_next(struct sim_world *w)
{
	return sim_sock_unread(CLIENT) ? w->power.now_ns : sim_sock_next();
}

static void lan_up(struct sim_world *w)
{
	if (!w->net)
		w->net = sim_sock_new();
	sim_sock_use(w->net);
	sim_sock_begin(w->cfg.seed * 31 + w->power.write_count, NULL);
	lan_as(w, false);
	w->power.now_ns = max_u64(w->power.now_ns, BEGINS_NS);
	sim_sock_time(w->power.now_ns);
}

static void lan_down(struct sim_world *w, bool told)
{
	lan_as(w, false);
	if (told)
		sim_sock_kill(APPLIANCE);
	else
		sim_sock_power(APPLIANCE, false);
	sim_sock_time(w->power.now_ns);
}

static void lan_end(struct sim_world *w)
{
	sim_sock_use(w->net);
	ASSERT(sim_sock_end() == 0); /* nobody has left a descriptor open */
	sim_sock_free(w->net);
	w->net = NULL;
}

const struct sim_lan sim_lan_sockets = {
	.address = "tcp://10.0.0.1:7010",
	.up = lan_up,
	.as = lan_as,
	.time = lan_time,
	.next = lan_next,
	.down = lan_down,
	.end = lan_end,
};

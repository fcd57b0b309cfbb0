/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Clients, the network and the appliance, all of them as shipped, in one thread and in simulated
 * time.
 *
 *   libweka-client -- fab_dial, fab_conn, fab_tcp --+                     +-- power cuts, kill -9
 *   libweka-client ---------------------------------+-- sim_sock.c  -- fab_listen, hello, fab_tcp,
 *   libweka-client ---------------------------------+   (sockets)      fab_session, app_core (1, 2,
 *     |  requests of all kinds, cancels, deadlines        |            4 cores), meta, nvme
 *     |  crashes, pauses, sleep                           |                        |
 *     +-- wire_model.c: what may be answered              |                 simulated drives
 *                                                         +-- delays by moods, pieces of any size,
 * cuts at any byte in either direction, half-open connections, partitions, refusals
 *
 * In half of the runs the appliance has two addresses, each over a link of its own, of which one
 * may be dead from the beginning to the end.
 *
 * Looked at: each request ends once, in time, with an answer that some order of everything
 * explains; a change that was acknowledged is there, once, for ever; one that was not, once or not
 * at all; a file that is open is there, by its handle at least, whatever its names; no byte of a
 * buffer at rest changes; and when all is quiet every session, operation,
 * credit, lease and piece of memory is back, on both sides, and the store is whole.
 *
 * usage: wire [--seed N] [--runs N]; WIRE_VERBOSE=1 tells what happens
 */
#include "test/sim/wire_clean.h"
#include "test/sim/wire_client.h"

#include "appliance/core/app_op.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "client-lib/client_internal.h"
#include "fabric/hello/fab_server_internal.h"
#include "meta/plans/meta_plan.h"
#include "test/lib/sim_sock.h"
#include "test/sim/sim_args.h"
#include "test/sim/sim_world.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define APPLIANCE   1u
#define LINK_TOO    15u /* its other address, in half of the runs */
#define ADDRESS     "tcp://10.0.0.1:7010"
#define ADDRESS_TOO "tcp://10.0.0.15:7010"
#define CLIENTS_MAX 5u
#define FAULTS      24u               /* of a run */
#define STEPS_MAX   UINT64_C(5000000) /* 77,442 of the 90 runs of make test */
/* By then every connection that leads nowhere has been given up. */
#define QUIET_NS  (90 * NS_PER_S)
#define TOTALS_NS (8 * NS_PER_S)  /* 5 s, says PROTOCOL.md */
#define HOLDS_NS  (62 * NS_PER_S) /* a minute, says PROTOCOL.md */

enum fault {
	FAULT_CUT,
	FAULT_HALF_OPEN,
	FAULT_PARTITION,
	FAULT_PARTITION_ALL,
	FAULT_LINK,
	FAULT_CLIENT_DIES,
	FAULT_CLIENT_OFF,
	FAULT_CLIENT_PAUSES,
	FAULT_CLIENT_LEAVES,
	FAULT_REFUSED,
	FAULT_KILL,
	FAULT_POWER,
	FAULT_STOP,
	FAULT_KINDS,
};
static const char *const fault_names[] = {
	"cuts",       "half-open",      "partitions",  "partitions of all",
	"dead links", "client crashes", "clients off", "pauses",
	"leaves",     "refusals",       "kills",       "power cuts",
	"stops",
};

static struct {
	struct sim_world w;
	struct wire_client client[CLIENTS_MAX];
	uint32_t clients;
	struct rand_state rand;
	bool up;   /* there is an appliance           */
	bool ask;  /* clients ask for more            */
	bool born; /* clients are born when they are not there */
	bool faults;
	bool booting;
	bool waiting; /* a client, in a call */
	bool two_links;
	uint32_t dead_link; /* for the whole run; 0: none */
	uint64_t steps;
	uint64_t fault_ns, up_ns, power_ns[CLIENTS_MAX];
	bool good, verbose;
	uint64_t faulted;
	uint64_t deliver_ns;
} run;

static struct {
	uint64_t faults[FAULT_KINDS];
	uint64_t runs, simulated_ns, dead_links, steps_max;
} total;

static uint64_t below(uint64_t bound)
{
	return rand_below(&run.rand, bound);
}

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
	va_list args;

	if (!run.verbose)
		return;
	printf("# %12.6f ", (double)run.w.power.now_ns / 1e9);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
}

/* ---- time goes on ---------------------------------------------------------------------- */

static void leap(void)
{
	uint64_t now_ns = run.w.power.now_ns, next_ns = now_ns + WIRE_LEAP_NS;

	next_ns = min_u64(next_ns, sim_sock_next());
	if (run.faults)
		next_ns = min_u64(next_ns, run.fault_ns);
	next_ns = max_u64(next_ns, now_ns + 1);
	run.w.cfg.leap_max_ns = next_ns - now_ns;
	sim_sock_as(APPLIANCE);
	if (run.up)
		sim_world_turn(&run.w);
	else
		run.w.power.now_ns = next_ns;
	sim_sock_time(run.w.power.now_ns);
}

/* As a client is told them, in any order. */
static const char *addresses(void)
{
	static const char *const both[] = { ADDRESS "," ADDRESS_TOO, ADDRESS_TOO "," ADDRESS };

	return run.two_links ? both[below(2)] : ADDRESS;
}

static uint64_t a_while(void)
{
	const uint64_t dice = below(8);

	return dice < 4   ? NS_PER_MS + below(50 * NS_PER_MS)
	       : dice < 7 ? below(6 * NS_PER_S)
			  : below(50 * NS_PER_S);
}

static void client_turn(struct wire_client *cl)
{
	uint64_t now_ns = run.w.power.now_ns;

	if (cl->connecting || !run.good || now_ns < cl->pause_ns)
		return;
	sim_sock_as(cl->host);
	if (cl->c && cl->leaving && !run.waiting && !run.booting) {
		run.waiting = true;
		wire_client_leave(cl);
		run.waiting = false;
		cl->born_ns = run.w.power.now_ns + a_while();
	} else if (cl->c) {
		run.good = wire_client_turn(cl, now_ns, run.ask);
	} else if (run.born && !run.waiting && !run.booting && now_ns >= cl->born_ns) {
		run.waiting = true;
		sim_sock_power(cl->host, true);
		run.good = wire_client_born(cl, addresses(), now_ns) && run.good;
		run.waiting = false;
		say("client %u: %s", cl->index, cl->c ? "is born" : weka_error(NULL));
	}
}

static void clients_turn(void)
{
	for (uint32_t i = 0; i < run.clients; i++)
		client_turn(&run.client[i]);
}

static void all_turn(void)
{
	leap();
	for (uint32_t i = 0; i < run.clients; i++)
		wire_holds_turn(&run.client[i], run.w.power.now_ns);
	clients_turn();
	if (below(64) == 0)
		wire_settle(run.client, run.clients);
}

static bool booting(struct sim_world *w)
{
	sim_sock_time(w->power.now_ns);
	clients_turn();
	w->cfg.leap_max_ns = WIRE_LEAP_NS;
	sim_sock_as(APPLIANCE);
	return run.good;
}

/* ---- the appliance --------------------------------------------------------------------- */

static bool appliance_up(enum app_boot boot)
{
	int err;

	sim_sock_as(APPLIANCE);
	sim_sock_power(APPLIANCE, true);
	run.w.why[0] = 0;
	run.booting = true;
	run.w.cfg.leap_max_ns = WIRE_LEAP_NS;
	run.w.booting = booting;
	err = sim_world_up(&run.w, boot);
	run.w.booting = NULL;
	run.booting = false;
	sim_sock_time(run.w.power.now_ns);
	run.up = !err;
	say("the appliance is up: %d", err);
	if (!run.good)
		return false;
	return !err || sim_wrong("mount: %s", run.w.why[0] ? run.w.why : strerror(-err));
}

/* All holds end with the appliance. */
static void holds_end(void)
{
	for (uint32_t i = 0; i < run.clients; i++)
		wire_holds_end(&run.client[i]);
}

/* Cuts the power or kills the process; the appliance comes back after a while. */
static void appliance_down(enum fault fault)
{
	holds_end();
	sim_sock_as(APPLIANCE);
	if (fault == FAULT_KILL) {
		sim_sock_kill(APPLIANCE);
		sim_world_kill(&run.w, rand_u64(&run.rand));
	} else {
		sim_sock_power(APPLIANCE, false);
		sim_world_cut(&run.w, rand_u64(&run.rand));
	}
	sim_sock_time(run.w.power.now_ns);
	run.up = false;
	run.up_ns = run.w.power.now_ns + below(below(2) ? NS_PER_S : 6 * NS_PER_S);
}

static bool appliance_stop(void)
{
	int err;

	holds_end();
	sim_sock_as(APPLIANCE);
	sim_power_cut_at(&run.w.power, 0, 0);
	run.w.cfg.leap_max_ns = WIRE_LEAP_NS;
	err = sim_world_stop(&run.w);
	sim_sock_time(run.w.power.now_ns);
	run.up = false;
	run.up_ns = run.w.power.now_ns + below(NS_PER_S);
	return !err || sim_wrong("a clean stop: %d, %s", err, run.w.why);
}

/* ---- faults ---------------------------------------------------------------------------- */

/* Nothing gets through one of its links, or one way only. */
static void link_fault(uint64_t now_ns)
{
	uint32_t link = below(2) ? LINK_TOO : APPLIANCE;
	uint64_t ways = 1 + below(3);

	if (!run.two_links || run.dead_link)
		return;
	total.faults[FAULT_LINK]++;
	say("the link of 10.0.0.%u", link);
	sim_sock_partition(link, ways & 1, ways & 2, now_ns + a_while());
}

static void partition_all(uint64_t now_ns)
{
	bool from = below(2);
	uint64_t until_ns = now_ns + a_while();

	if (run.dead_link != APPLIANCE)
		sim_sock_partition(APPLIANCE, true, from, until_ns);
	if (run.two_links && run.dead_link != LINK_TOO)
		sim_sock_partition(LINK_TOO, true, from, until_ns);
}

static void client_fault(enum fault fault, struct wire_client *cl, uint64_t now_ns)
{
	uint64_t until_ns = now_ns + a_while();
	uint64_t ways = 1 + below(3);

	switch (fault) {
	case FAULT_CUT:
		if (!sim_sock_cut(cl->host, 0))
			return;
		break;
	case FAULT_HALF_OPEN:
		if (!sim_sock_cut(cl->host, a_while()))
			return;
		break;
	case FAULT_PARTITION:
		sim_sock_partition(cl->host, ways & 1, ways & 2, until_ns);
		break;
	case FAULT_CLIENT_DIES:
	case FAULT_CLIENT_OFF:
		if (!cl->c)
			return;
		sim_sock_as(cl->host);
		if (fault == FAULT_CLIENT_DIES)
			sim_sock_kill(cl->host);
		else
			sim_sock_power(cl->host, false);
		wire_client_die(cl);
		cl->born_ns = now_ns + a_while();
		break;
	case FAULT_CLIENT_PAUSES:
		cl->pause_ns = now_ns + a_while() / 4;
		break;
	case FAULT_CLIENT_LEAVES:
		if (!cl->c || cl->leaving)
			return;
		cl->leaving = true;
		break;
	default:
		UNREACHABLE();
	}
	total.faults[fault]++;
	say("client %u: %s", cl->index, fault_names[fault]);
}

static bool a_fault(void)
{
	static const uint8_t mix[] = {
		FAULT_CUT,           FAULT_CUT,         FAULT_CUT,           FAULT_HALF_OPEN,
		FAULT_HALF_OPEN,     FAULT_PARTITION,   FAULT_PARTITION,     FAULT_PARTITION_ALL,
		FAULT_CLIENT_DIES,   FAULT_CLIENT_DIES, FAULT_CLIENT_OFF,    FAULT_CLIENT_PAUSES,
		FAULT_CLIENT_PAUSES, FAULT_REFUSED,     FAULT_KILL,          FAULT_KILL,
		FAULT_POWER,         FAULT_POWER,       FAULT_POWER,         FAULT_STOP,
		FAULT_LINK,          FAULT_LINK,        FAULT_CLIENT_LEAVES, FAULT_CLIENT_LEAVES,
	};
	enum fault fault = (enum fault)mix[below(ARRAY_LEN(mix))];
	uint64_t now_ns = run.w.power.now_ns;

	run.faulted++;
	if (fault < FAULT_REFUSED && fault != FAULT_PARTITION_ALL && fault != FAULT_LINK) {
		client_fault(fault, &run.client[below(run.clients)], now_ns);
		return true;
	}
	if (fault == FAULT_LINK)
		link_fault(now_ns);
	if (!run.up || fault == FAULT_LINK)
		return true;
	total.faults[fault]++;
	say("the appliance: %s", fault_names[fault]);
	if (fault == FAULT_PARTITION_ALL)
		partition_all(now_ns);
	else if (fault == FAULT_REFUSED)
		sim_sock_refuse(APPLIANCE, now_ns + below(3 * NS_PER_S));
	else if (fault == FAULT_POWER && below(2)) /* in the middle of its next writes */
		sim_power_cut_at(&run.w.power, 1 + below(60), rand_u64(&run.rand));
	else if (fault == FAULT_STOP)
		return appliance_stop();
	else
		appliance_down(fault);
	return true;
}

static bool step(void)
{
	if (++run.steps > STEPS_MAX)
		return sim_wrong("no end in sight after %llu steps and %llu simulated seconds",
				 (unsigned long long)run.steps,
				 (unsigned long long)(run.w.power.now_ns / NS_PER_S));
	all_turn();
	if (!run.good || run.booting)
		return run.good;
	if (run.up && run.w.power.off)
		appliance_down(FAULT_POWER);
	if (!run.up && run.w.power.now_ns >= run.up_ns && !appliance_up(APP_BOOT_MOUNT))
		return false;
	if (!run.faults || run.w.power.now_ns < run.fault_ns)
		return true;
	run.fault_ns = run.w.power.now_ns + (below(3) ? below(20 * NS_PER_MS) : below(NS_PER_S));
	return a_fault();
}

/* Somebody waits in a call. */
static void idle(void)
{
	uint32_t host = APPLIANCE;

	for (uint32_t i = 0; i < run.clients; i++)
		if (run.client[i].connecting)
			host = run.client[i].host;
	run.good = wire_as_another_thread(step);
	sim_sock_as(host);
}

/* ---- a run ----------------------------------------------------------------------------- */

static void config_of(struct sim_world_cfg *cfg, uint64_t seed)
{
	static const uint32_t cores[] = { 1, 2, 4 };

	*cfg = (struct sim_world_cfg){
		.seed = seed,
		.address = ADDRESS,
		.address_too = run.two_links ? ADDRESS_TOO : NULL,
		.ncores = cores[seed % 3],
		.ndrives = 1 + (uint32_t)below(2),
		.nblocks = 2048,
		.volatile_cache = below(4) != 0,
		.atomic_bytes = below(3) ? 4096 : 512,
		.nshards = 4,
		.cache_bytes = 4u << 20,
		.ops_max = 8,
		.sessions_max = 32,
		.window_max_bytes = 256u << 10,
		.eager_reuse = below(2),
		.cut_garbles = below(3) == 0,
	};
}

/* A call that waits. */
static void call_begins(struct wire_client *cl)
{
	cl->connecting = true;
	sim_sock_as(cl->host);
	sim_sock_waits(true);
}

static void call_ends(struct wire_client *cl)
{
	sim_sock_waits(false);
	cl->connecting = false;
}

static bool make_dirs(void)
{
	struct wire_client *cl = &run.client[0];
	char path[8];

	while (!cl->c)
		if (!step())
			return false;
	for (uint32_t i = 0; i < WIRE_GROUPS; i++) {
		int err;

		snprintf(path, sizeof(path), "/g%u", i);
		call_begins(cl);
		err = weka_mkdir(cl->c, path, 0755);
		call_ends(cl);
		if (err)
			return sim_wrong("mkdir: %s", weka_error(cl->c));
	}
	return true;
}

static void links_begin(void)
{
	run.two_links = below(2);
	run.dead_link = 0;
	if (!run.two_links)
		return;
	sim_sock_alias(LINK_TOO, APPLIANCE);
	if (below(3))
		return;
	run.dead_link = below(2) ? LINK_TOO : APPLIANCE;
	sim_sock_partition(run.dead_link, true, true, SIM_NO_TIME);
	total.dead_links++;
}

static bool begin(uint64_t seed)
{
	struct sim_faults faults = { .delay_min_ns = 2000 };
	struct sim_world_cfg cfg;

	memset(&run.client, 0, sizeof(run.client));
	rand_seed(&run.rand, seed * 77 + 5);
	run.good = run.born = true;
	run.ask = run.faults = run.up = false;
	run.booting = run.waiting = false;
	run.faulted = 0;
	run.up_ns = 0;
	run.steps = 0;
	wire_model_begin();
	sim_sock_begin(seed, idle);
	links_begin();
	config_of(&cfg, seed);
	sim_world_create(&run.w, &cfg);
	sim_sock_fails(APPLIANCE, &run.w.power.off);
	run.w.power.now_ns = 2 * NS_PER_MS;
	run.clients = 1 + (uint32_t)below(CLIENTS_MAX);
	for (uint32_t i = 0; i < run.clients; i++) {
		wire_client_begin(&run.client[i], i, seed);
		sim_sock_delay(run.client[i].host, 2000 + below(below(3) ? 30000 : 400000));
	}
	if (!appliance_up(APP_BOOT_FORMAT))
		return false;
	faults.delay_max_ns = 2000 + below(200000);
	sim_world_faults(&run.w, &faults);
	return make_dirs();
}

static void heal(void)
{
	run.faults = false;
	sim_power_cut_at(&run.w.power, 0, 0);
	for (uint32_t h = 1; h < SIM_HOSTS_MAX; h++)
		if (h != run.dead_link)
			sim_sock_partition(h, true, true, 0);
	sim_sock_refuse(APPLIANCE, 0);
	for (uint32_t i = 0; i < run.clients; i++) {
		run.client[i].pause_ns = run.client[i].born_ns = 0;
		run.client[i].asked = 0; /* it asks at once */
		sim_sock_power(run.client[i].host, true);
	}
	run.up_ns = min_u64(run.up_ns, run.w.power.now_ns);
}

static bool all_answered_since(uint64_t since_ns)
{
	for (uint32_t i = 0; i < run.clients; i++)
		if (!run.client[i].c || run.client[i].answered_ns < since_ns)
			return false;
	return true;
}

/* The first that has not all of its lanes, but for those over the link that is dead. */
static uint32_t first_without_lane(void)
{
	const char *dead = run.dead_link == APPLIANCE  ? ADDRESS
			   : run.dead_link == LINK_TOO ? ADDRESS_TOO
						       : "";

	for (uint32_t i = 0; i < run.clients; i++)
		if (wire_client_misses(&run.client[i], dead) < CLIENT_LANES_MAX)
			return i;
	return run.clients;
}

static bool not_served(uint64_t since_ns)
{
	for (uint32_t i = 0; i < run.clients; i++) {
		const struct wire_client *cl = &run.client[i];

		if (!cl->c)
			return sim_wrong("client %u cannot connect any more", i);
		if (cl->answered_ns < since_ns)
			return sim_wrong("client %u is not served again: %s, %u requests out, %s",
					 i, cl->c->at == CLIENT_UP ? "connected" : cl->c->error,
					 cl->c->out_count, cl->asleep ? "asleep" : "awake");
	}
	return sim_wrong("client %u: a lane does not come again: %s", first_without_lane(),
			 run.client[first_without_lane()].c->error);
}

/* By themselves everybody is served again. */
static bool recovers(void)
{
	uint64_t since_ns = run.w.power.now_ns;

	while (!all_answered_since(since_ns) || first_without_lane() < run.clients) {
		if (!step())
			return false;
		if (run.w.power.now_ns > since_ns + QUIET_NS)
			return not_served(since_ns);
	}
	return true;
}

static bool quiet(void)
{
	for (uint32_t i = 0; i < run.clients; i++)
		if (!run.client[i].c || !wire_client_is_quiet(&run.client[i]))
			return false;
	return true;
}

static bool falls_quiet(void)
{
	uint64_t since_ns = run.w.power.now_ns;

	run.ask = false;
	while (!quiet()) {
		if (!step())
			return false;
		if (run.w.power.now_ns > since_ns + QUIET_NS)
			return sim_wrong("something is still out");
	}
	for (uint32_t i = 0; i < run.clients; i++)
		if (!wire_client_is_clean(&run.client[i]))
			return false;
	return true;
}

static uint32_t sessions(void)
{
	uint32_t n = run.w.srv[0]->control->session_count;

	for (uint32_t i = 0; i < FAB_HELLOS_MAX; i++)
		n += run.w.srv[0]->control->arrivals[i].fd >= 0;
	return n;
}

/* Nobody is there any more: nothing is left of them. */
static bool appliance_is_clean(void)
{
	uint64_t since_ns = run.w.power.now_ns;

	while (sessions() > 0) {
		if (!step())
			return false;
		if (run.w.power.now_ns > since_ns + QUIET_NS)
			return sim_wrong("%u sessions are left", sessions());
	}
	since_ns = run.w.power.now_ns; /* what they had open stays for a while */
	while (run.w.power.now_ns < since_ns + 2 * NS_PER_S ||
	       (wire_holds_are_out(&run.w) && run.w.power.now_ns < since_ns + HOLDS_NS))
		if (!step())
			return false;
	if (meta__holds_count(app_core_meta(run.w.core)))
		return sim_wrong("the store holds files for nobody");
	for (uint32_t i = 0; i < run.w.ncores; i++)
		if (!wire_core_is_clean(run.w.each[i]))
			return false;
	return true;
}

/* Compares the totals of each directory, after they have been passed up. */
static bool totals_are(struct wire_client *cl)
{
	for (uint64_t end = run.w.power.now_ns + TOTALS_NS; run.w.power.now_ns < end;)
		if (!step())
			return false;
	for (uint32_t g = 0; g < WIRE_GROUPS; g++) {
		struct weka_totals totals = { 0 };
		char path[8];
		int err;

		snprintf(path, sizeof(path), "/g%u", g);
		call_begins(cl);
		err = weka_totals(cl->c, path, &totals);
		call_ends(cl);
		if (!wire_totals_are(g, err, totals.entries, totals.bytes))
			return false;
	}
	return true;
}

/* One client looks at everything. */
static bool last_look(void)
{
	struct wire_client *cl = &run.client[0];

	wire_settle(run.client, run.clients);
	for (uint32_t g = 0; g < WIRE_GROUPS; g++)
		if (wire_unsure(g) > 0)
			return sim_wrong("/g%u: something may yet take place", g);
	run.born = true;
	run.clients = 1;
	cl->born_ns = 0;
	while (!cl->c)
		if (!step())
			return false;
	run.born = false;
	if (!wire_client_read_all(cl, step) || !totals_are(cl))
		return false;
	return falls_quiet();
}

/* Breaks every connection once more, then lets more time pass than an appliance waits for clients
 * with open files: the files that are open then must be held again. */
static bool stays_open(void)
{
	uint64_t since_ns = run.w.power.now_ns;

	for (uint32_t i = 0; i < run.clients; i++)
		(void)sim_sock_cut(run.client[i].host, 0);
	run.ask = true;
	while (run.w.power.now_ns < since_ns + HOLDS_NS + 8 * NS_PER_S)
		if (!step())
			return false;
	if (!falls_quiet())
		return false;
	for (uint32_t i = 0; i < run.clients; i++)
		if (!wire_client_read_held(&run.client[i], step))
			return false;
	return falls_quiet();
}

static void part(void)
{
	run.born = false;
	for (struct wire_client *cl = run.client; cl < run.client + run.clients; cl++) {
		sim_sock_as(cl->host);
		if (cl->c)
			(below(2) ? wire_client_leave : wire_client_die)(cl);
	}
}

static bool life(uint64_t seed)
{
	if (!begin(seed))
		return false;
	run.ask = run.faults = true;
	run.fault_ns = run.w.power.now_ns;
	while (run.faulted < FAULTS)
		if (!step())
			return false;
	heal();
	say("everything is well again");
	if (!recovers())
		return false;
	say("everybody is served");
	if (!falls_quiet())
		return false;
	say("all is quiet");
	if (seed % 4 == 0 && !stays_open())
		return false;
	part();
	if (!appliance_is_clean() || !last_look())
		return false;
	part();
	if (!appliance_is_clean())
		return false;
	if (!wire_store_is_clean(&run.w))
		return false;
	return appliance_stop();
}

static void tidy_up(void)
{
	total.simulated_ns += run.w.power.now_ns;
	total.steps_max = max_u64(total.steps_max, run.steps);
	sim_world_destroy(&run.w);
	wire_model_end();
}

static bool one(uint64_t seed)
{
	uint32_t open;

	sim_begins(seed);
	if (!life(seed)) {
		printf("not ok seed %llu: %s\n  again: make sim SEED=%llu\n",
		       (unsigned long long)seed, sim_why, (unsigned long long)seed);
		if (run.verbose)
			wire_describe();
		return false;
	}
	tidy_up();
	open = sim_sock_end();
	if (open > 0)
		printf("not ok seed %llu: %u descriptors are left\n", (unsigned long long)seed,
		       open);
	total.runs++;
	return open == 0;
}

static void report(void)
{
	printf("# faults:");
	for (uint32_t i = 0; i < FAULT_KINDS; i++)
		printf(" %llu %s%s", (unsigned long long)total.faults[i], fault_names[i],
		       i + 1 < FAULT_KINDS ? "," : "\n");
	printf("# %llu runs with one of two links dead from beginning to end; at most %llu steps\n",
	       (unsigned long long)total.dead_links, (unsigned long long)total.steps_max);
	wire_client_report();
}

int main(int argc, char **argv)
{
	struct sim_args args = sim_args(argc, argv, "runs", sim_args_few(90, 4), 10000);

	run.verbose = getenv("WIRE_VERBOSE") != NULL;
	log_level_set(run.verbose ? LOG_INFO : LOG_ERROR);
	if (args.one_seed && argc == 3)
		args.count = 1;
	for (uint64_t seed = args.seed; seed < args.seed + args.count; seed++)
		if (!one(seed))
			return 1;
	report();
	printf("ok wire: %llu runs from seed %llu, %.0f simulated seconds\n",
	       (unsigned long long)total.runs, (unsigned long long)args.seed,
	       (double)total.simulated_ns / 1e9);
	return 0;
}

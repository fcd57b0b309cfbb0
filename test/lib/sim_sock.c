/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Bytes in transit between simulated hosts.
 *
 *    end 0   way: [seg][seg][FIN]  --arrives_ns, no partition, room-->  ready: [seg]   end 1
 *            sent and on its way                                        not yet read
 *
 * Invariants:
 *  (1) A flow's segments arrive in the order in which they were sent, each byte once, or never:
 *      then none that was sent after it.
 *  (2) A connection is there until both ends are closed; an end that is closed has no object.
 *  (3) next_ns is not later than the first thing that happens by itself.
 */
#include "test/lib/sim_sock_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SYN_TRIES 6u
#define NS_PER_S_ UINT64_C(1000000000)

static struct sim_sock the_one; /* the network of programs that make no other */
struct sim_sock *sim__sock = &the_one;
struct sim_sock_stat sim_sock_stat;

static uint64_t below(uint64_t bound)
{
	return rand_below(&sim__sock->rand, bound);
}

static void soon(uint64_t at_ns)
{
	sim__sock->next_ns = min_u64(sim__sock->next_ns, at_ns);
}

/* ---- flows ----------------------------------------------------------------------------- */

/* Until when nothing gets from `from` to `to`. */
static uint64_t blocked_until(uint32_t from, uint32_t to)
{
	return max_u64(sim__sock->host[from].from_until_ns, sim__sock->host[to].to_until_ns);
}

/* Mostly as fast as its host, now and then much slower, for a while. */
static uint64_t delay(struct sim_conn *c, int end)
{
	struct sim_flow *f = &c->flow[end];
	uint64_t usual = max_u64(sim__sock->host[c->host[0]].delay_max_ns, 1000), dice;

	if (sim__sock->now_ns >= f->mood_ns) {
		f->mood_ns = sim__sock->now_ns + 1 + below(2 * SIM_MOODS_NS);
		dice = below(20);
		f->delay_max_ns = dice < 14 ? usual : dice < 18 ? 20 * usual : 300 * usual;
	}
	return 1 + below(f->delay_max_ns);
}

static void flow_init(struct sim_flow *f)
{
	list_init(&f->way);
	list_init(&f->ready);
	f->receive_max = 1024u << below(9);
	f->send_max = 2048u << below(8);
}

static void forget(struct list *l)
{
	struct list *node;

	while ((node = list_pop_front(l)) != NULL)
		free(list_entry(node, struct sim_segment, node));
}

uint32_t sim__send_room(const struct sim_flow *f)
{
	return f->way_bytes < f->send_max ? f->send_max - f->way_bytes : 0;
}

void sim__send(struct sim_conn *c, int end, enum sim_segment_type type, const void *bytes,
	       uint32_t size)
{
	struct sim_flow *f = &c->flow[end];
	struct sim_segment *s;

	s = malloc(sizeof(*s) + size);
	ASSERT(s);
	s->type = type;
	s->at = 0;
	s->size = size;
	if (size > 0)
		memcpy(s->bytes, bytes, size);
	s->sent_ns = sim__sock->now_ns;
	s->arrives_ns = SIM_NO_TIME;
	if (!f->lost) {
		s->arrives_ns = max_u64(f->arrives_ns, sim__sock->now_ns + delay(c, end));
		f->arrives_ns = s->arrives_ns;
	}
	f->way_bytes += size;
	list_init(&s->node);
	list_push_back(&f->way, &s->node);
	sim_sock_stat.segments++;
	sim_sock_stat.bytes += size;
	soon(s->arrives_ns);
}

/* ---- connections ----------------------------------------------------------------------- */

struct sim_conn *sim__conn_new(struct sim_obj *from, uint32_t host, uint16_t port)
{
	struct sim_conn *c = calloc(1, sizeof(*c));

	ASSERT(c);
	c->host[0] = from->host;
	c->host[1] = host;
	c->port[0] = sim__sock->port_next++;
	c->port[1] = port;
	c->end[0] = from;
	c->reset_ns[0] = c->reset_ns[1] = SIM_NO_TIME;
	c->open_ns = SIM_NO_TIME;
	flow_init(&c->flow[0]);
	flow_init(&c->flow[1]);
	c->syn_ns = sim__sock->now_ns + delay(c, 0);
	list_init(&c->node);
	list_push_back(&sim__sock->conns, &c->node);
	soon(c->syn_ns);
	sim_sock_stat.connections++;
	return c;
}

static void conn_free(struct sim_conn *c)
{
	for (int i = 0; i < 2; i++) {
		forget(&c->flow[i].way);
		forget(&c->flow[i].ready);
	}
	list_del(&c->node);
	free(c);
}

void sim__end_close(struct sim_conn *c, int end)
{
	struct sim_flow *in = &c->flow[1 - end];
	bool reset = in->ready_bytes > 0, told = c->end[end] && c->end[end]->shut_write;

	if (c->end[end])
		c->end[end]->conn = NULL;
	c->end[end] = NULL;
	forget(&in->ready);
	in->ready_bytes = 0;
	if (c->at == SIM_OPEN && !c->gone[end] && !c->flow[end].lost && (reset || !told))
		sim__send(c, end, reset ? SIM_RESET : SIM_FIN, NULL, 0);
	c->gone[end] = true;
}

/* The other end hears, out of order, that nobody here knows the connection. */
static void reset_later(struct sim_conn *c, int end, uint64_t at_ns)
{
	c->reset_ns[end] = min_u64(c->reset_ns[end], at_ns);
	soon(c->reset_ns[end]);
}

static void fail(struct sim_conn *c, int end, int err)
{
	struct sim_obj *o = c->end[end];

	c->gone[end] = true; /* what arrives now is answered with a reset */
	c->reset_ns[end] = SIM_NO_TIME;
	if (!o || o->err)
		return;
	o->err = err;
	sim__event(o);
	sim_sock_stat.resets += err == -ECONNRESET;
	sim_sock_stat.timeouts += err == -ETIMEDOUT;
}

/* ---- time ------------------------------------------------------------------------------ */

static void syn(struct sim_conn *c)
{
	struct sim_host *h = sim__owner(c->host[1]);
	struct sim_obj *l = sim__listener(c->host[1], c->port[1]);
	uint64_t now_ns = sim__sock->now_ns;

	if (h->off || blocked_until(c->host[0], c->host[1]) > now_ns ||
	    (l && l->queued == SIM_BACKLOG)) {
		c->syn_ns = now_ns + (NS_PER_S_ << c->tries);
		if (++c->tries == SYN_TRIES)
			fail(c, 0, -ETIMEDOUT);
	} else if (!l || h->refuse_until_ns > now_ns) {
		c->at = SIM_REFUSED;
		c->open_ns = now_ns + delay(c, 1);
		sim_sock_stat.refused++;
	} else {
		c->at = SIM_OPEN;
		c->open_ns = now_ns + delay(c, 1);
		c->flow[1].arrives_ns = c->open_ns;
		c->queued = true;
		l->queue[l->queued++] = c;
		sim__event(l);
	}
}

static void open_told(struct sim_conn *c)
{
	c->open_told = true;
	if (c->at == SIM_REFUSED)
		fail(c, 0, -ECONNREFUSED);
	else
		sim__event(c->end[0]);
}

static void arrive(struct sim_conn *c, int end, struct sim_segment *s)
{
	struct sim_flow *f = &c->flow[end];
	struct sim_obj *o = c->end[1 - end];

	list_del(&s->node);
	f->way_bytes -= s->size;
	f->progress_ns = sim__sock->now_ns;
	if (f->stuck && sim__send_room(f) >= f->send_max / 3) {
		f->stuck = false;
		sim__event(c->end[end]);
	}
	if (s->type == SIM_RESET) {
		fail(c, 1 - end, -ECONNRESET);
	} else if (c->gone[1 - end]) { /* nobody reads it */
		if (s->type == SIM_DATA)
			reset_later(c, end, sim__sock->now_ns + delay(c, 1 - end));
	} else if (s->type == SIM_FIN) {
		f->fin = true;
		sim__event(o);
	} else {
		f->ready_bytes += s->size;
		list_push_back(&f->ready, &s->node);
		sim__event(o);
		return;
	}
	free(s);
}

/* No window holds up a reset. */
static bool resets(const struct sim_flow *f)
{
	return list_entry(f->way.prev, struct sim_segment, node)->type == SIM_RESET;
}

/* Delivers the segments of `end` that are due. */
static void flow_run(struct sim_conn *c, int end)
{
	uint64_t until_ns = blocked_until(c->host[end], c->host[1 - end]);
	struct sim_flow *f = &c->flow[end];

	while (!list_empty(&f->way)) {
		struct sim_segment *s = list_entry(f->way.next, struct sim_segment, node);

		if (s->arrives_ns == SIM_NO_TIME)
			return;
		if (sim__owner(c->host[1 - end])->off)
			return; /* it comes back, and says that it does not know us */
		if (!c->gone[1 - end] && f->ready_bytes >= f->receive_max && !resets(f))
			return;
		if (s->arrives_ns > sim__sock->now_ns || until_ns > sim__sock->now_ns) {
			soon(max_u64(s->arrives_ns, until_ns));
			return;
		}
		arrive(c, end, s);
	}
}

/* Since when it cannot be reached, or 0. */
static void away_watch(struct sim_conn *c, int end)
{
	uint32_t here = c->host[end], there = c->host[1 - end];
	bool away = sim__owner(there)->off || c->flow[end].lost ||
		    blocked_until(here, there) > sim__sock->now_ns ||
		    blocked_until(there, here) > sim__sock->now_ns;

	if (!away)
		c->away_ns[end] = 0;
	else if (!c->away_ns[end])
		c->away_ns[end] = sim__sock->now_ns;
}

/* When the end's own kernel gives up: nothing is acknowledged, or no probe is answered. */
static void give_up(struct sim_conn *c, int end)
{
	struct sim_obj *o = c->end[end];
	struct sim_flow *f = &c->flow[end];
	uint64_t at_ns = SIM_NO_TIME, stuck_ns;

	if (!o || o->err || c->gone[end] || (end == 0 && !c->open_told))
		return;
	if (o->keepalive && c->away_ns[end])
		at_ns = c->away_ns[end] + (o->idle_s + o->probe_s * o->probes) * NS_PER_S_;
	if (o->user_timeout_ms && !list_empty(&f->way)) {
		struct sim_segment *s = list_entry(f->way.next, struct sim_segment, node);

		stuck_ns = max_u64(f->progress_ns, s->sent_ns);
		at_ns = min_u64(at_ns, stuck_ns + o->user_timeout_ms * UINT64_C(1000000));
	}
	/* Its peer's kernel is there, and does not know it: the next probe says so. */
	if (o->keepalive && !c->away_ns[end] && c->gone[1 - end] && !f->fin &&
	    !c->flow[1 - end].fin && list_empty(&c->flow[1 - end].way) &&
	    c->reset_ns[end] == SIM_NO_TIME)
		reset_later(c, end, sim__sock->now_ns + o->idle_s * NS_PER_S_);
	if (at_ns <= sim__sock->now_ns)
		fail(c, end, -ETIMEDOUT);
	else
		soon(at_ns);
}

static void conn_run(struct sim_conn *c)
{
	uint64_t now_ns = sim__sock->now_ns;

	if (c->at == SIM_SYN && c->end[0] && !c->end[0]->err && now_ns >= c->syn_ns)
		syn(c);
	if (c->at == SIM_SYN && c->end[0] && !c->end[0]->err)
		soon(c->syn_ns);
	if (c->at != SIM_SYN && !c->open_told) {
		if (now_ns >= c->open_ns)
			open_told(c);
		else
			soon(c->open_ns);
	}
	for (int end = 0; end < 2; end++) {
		away_watch(c, end);
		flow_run(c, end);
		if (c->reset_ns[end] <= now_ns && !c->away_ns[end])
			fail(c, end, -ECONNRESET);
		else if (c->reset_ns[end] > now_ns)
			soon(c->reset_ns[end]);
		give_up(c, end);
	}
}

static bool conn_over(const struct sim_conn *c)
{
	return !c->end[0] && !c->end[1] && !c->queued;
}

void sim_sock_time(uint64_t now_ns)
{
	struct list *at, *next;

	ASSERT(now_ns >= sim__sock->now_ns);
	sim__sock->now_ns = now_ns;
	if (now_ns < sim__sock->next_ns)
		return;
	sim__sock->next_ns = SIM_NO_TIME;
	for (at = sim__sock->conns.next; at != &sim__sock->conns; at = next) {
		struct sim_conn *c = list_entry(at, struct sim_conn, node);

		next = at->next;
		conn_run(c);
		if (conn_over(c))
			conn_free(c);
	}
	for (uint32_t i = 0; i < SIM_HOSTS_MAX; i++) {
		struct sim_host *h = &sim__sock->host[i];

		if (h->to_until_ns > now_ns)
			soon(h->to_until_ns);
		if (h->from_until_ns > now_ns)
			soon(h->from_until_ns);
	}
}

uint64_t sim_sock_next(void)
{
	uint64_t next_ns = sim__sock->next_ns;

	for (uint32_t i = 0; i < sim__sock->fds; i++) {
		const struct sim_obj *o = sim__sock->fd[i];

		if (o && o->type == SIM_TIMER && o->due_ns > sim__sock->now_ns)
			next_ns = min_u64(next_ns, o->due_ns);
	}
	return next_ns;
}

/* ---- faults ---------------------------------------------------------------------------- */

static void hurry(void)
{
	sim__sock->next_ns = 0;
}

void sim_sock_as(uint32_t host)
{
	ASSERT(host < SIM_HOSTS_MAX);
	sim__sock->host_now = host;
}

void sim_sock_alias(uint32_t address, uint32_t host)
{
	ASSERT(address < SIM_HOSTS_MAX && host != address);
	sim__sock->host[address].owner = host;
}

void sim_sock_delay(uint32_t host, uint64_t delay_max_ns)
{
	sim__sock->host[host].delay_max_ns = delay_max_ns;
}

void sim_sock_fails(uint32_t host, const bool *fails)
{
	sim__sock->host[host].fails = fails;
}

void sim_sock_partition(uint32_t host, bool to, bool from, uint64_t until_ns)
{
	struct sim_host *h = &sim__sock->host[host];

	if (to)
		h->to_until_ns = until_ns;
	if (from)
		h->from_until_ns = until_ns;
	sim_sock_stat.partitions++;
	hurry();
}

void sim_sock_refuse(uint32_t host, uint64_t until_ns)
{
	sim__sock->host[host].refuse_until_ns = until_ns;
}

/* With the process, or with the host: `told` the kernel says goodbye. */
static void die(uint32_t host, bool told)
{
	for (uint32_t i = 0; i < sim__sock->fds; i++) {
		struct sim_obj *o = sim__sock->fd[i];

		if (!o || o->host != host || o->dead ||
		    (o->type != SIM_STREAM && o->type != SIM_LISTENER))
			continue;
		o->dead = true;
		sim__event(o);
		if (o->type == SIM_STREAM && o->conn) {
			if (!told)
				o->conn->flow[o->end].lost = true;
			sim__end_close(o->conn, o->end);
		}
		for (uint32_t k = 0; o->type == SIM_LISTENER && k < o->queued; k++) {
			o->queue[k]->queued = false;
			if (!told)
				o->queue[k]->flow[1].lost = true;
			sim__end_close(o->queue[k], 1);
		}
		o->queued = 0;
	}
	hurry();
}

void sim_sock_kill(uint32_t host)
{
	die(host, true);
}

void sim_sock_power(uint32_t host, bool on)
{
	if (!on)
		die(host, false);
	sim__sock->host[host].off = !on;
	hurry();
}

/* Any number of the bytes on their way still arrive, and then a reset, perhaps much later. */
static void cut_flow(struct sim_conn *c, int end, uint64_t late_ns)
{
	struct sim_flow *f = &c->flow[end];
	uint64_t keep = below(3) ? below(f->way_bytes + 1) : 0;
	struct list *at, *next;
	bool over = false;

	for (at = f->way.next; at != &f->way; at = next) {
		struct sim_segment *s = list_entry(at, struct sim_segment, node);

		next = at->next;
		over = over || s->type != SIM_DATA || keep == 0;
		if (over) {
			f->way_bytes -= s->size;
			list_del(&s->node);
			free(s);
			continue;
		}
		if (s->size > keep) {
			f->way_bytes -= s->size - (uint32_t)keep;
			s->size = (uint32_t)keep;
		}
		keep -= s->size;
	}
	if (f->lost)
		return;
	sim__send(c, end, SIM_RESET, NULL, 0);
	if (late_ns > 0) {
		struct sim_segment *s = list_entry(f->way.prev, struct sim_segment, node);

		s->arrives_ns = sim__sock->now_ns + late_ns;
		f->arrives_ns = s->arrives_ns;
	}
	f->lost = true;
}

static struct sim_conn *conn_of(uint32_t host)
{
	struct sim_conn *found = NULL;
	struct list *at;
	uint32_t count = 0;

	list_for_each (at, &sim__sock->conns) {
		struct sim_conn *c = list_entry(at, struct sim_conn, node);

		if (c->host[0] != host || c->at != SIM_OPEN || !c->end[0] || c->flow[0].lost)
			continue;
		if (below(++count) == 0)
			found = c;
	}
	return found;
}

bool sim_sock_cut(uint32_t host, uint64_t late_ns)
{
	struct sim_conn *c = conn_of(host);
	uint64_t who = below(2);

	if (!c)
		return false;
	cut_flow(c, 0, who == 0 ? late_ns : 0);
	cut_flow(c, 1, who == 1 ? late_ns : 0);
	sim_sock_stat.cuts++;
	hurry();
	return true;
}

bool sim_sock_lingers(uint32_t host)
{
	struct list *at;

	list_for_each (at, &sim__sock->conns) {
		struct sim_conn *c = list_entry(at, struct sim_conn, node);
		const struct sim_obj *o = c->end[0];

		if (c->host[0] == host && (c->end[1] || c->queued) &&
		    (!o || o->dead || o->err || o->shut_write))
			return true;
	}
	return false;
}

/* ---- begin and end --------------------------------------------------------------------- */

struct sim_sock *sim_sock_new(void)
{
	struct sim_sock *net = calloc(1, sizeof(*net));

	ASSERT(net);
	return net;
}

void sim_sock_free(struct sim_sock *net)
{
	ASSERT(net != &the_one);
	if (sim__sock == net)
		sim__sock = &the_one;
	free(net);
}

void sim_sock_use(struct sim_sock *net)
{
	sim__sock = net;
}

void sim_sock_begin(uint64_t seed, void (*idle)(void))
{
	memset(sim__sock, 0, sizeof(*sim__sock));
	rand_seed(&sim__sock->rand, seed);
	list_init(&sim__sock->conns);
	sim__sock->port_next = 10000;
	sim__sock->idle = idle;
	sim__sock->now_ns = 1000000;
}

uint32_t sim_sock_end(void)
{
	uint32_t open = 0;

	for (uint32_t i = 0; i < sim__sock->fds; i++) {
		open += sim__sock->fd[i] != NULL;
		free(sim__sock->fd[i]);
		sim__sock->fd[i] = NULL;
	}
	while (!list_empty(&sim__sock->conns))
		conn_free(list_entry(sim__sock->conns.next, struct sim_conn, node));
	return open;
}

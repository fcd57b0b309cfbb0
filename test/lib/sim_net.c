/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/lib/sim_net.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct sim_message {
	struct list node;
	uint64_t arrives_ns;
	uint32_t at;   /* handed out so far */
	uint32_t size; /* header, body, payload */
	uint8_t bytes[];
};

static struct sim_link *sim_of(struct fab_link *link)
{
	return container_of(link, struct sim_link, link);
}

static struct sim_message *arrived(struct sim_link *l)
{
	struct sim_message *m;

	if (list_empty(&l->in))
		return NULL;
	m = list_entry(l->in.next, struct sim_message, node);
	return m->arrives_ns <= l->net->now_ns ? m : NULL;
}

/* `size` more bytes of the stream to dst, or as many as are here. */
static uint32_t take(struct sim_link *l, void *dst, uint32_t size)
{
	struct sim_message *m = arrived(l);
	uint32_t n;

	if (!m)
		return 0;
	n = min_u32(size, m->size - m->at);
	memcpy(dst, m->bytes + m->at, n);
	m->at += n;
	if (m->at == m->size) {
		list_del(&m->node);
		free(m);
	}
	return n;
}

static int sim_recv_header(struct fab_link *link, struct fab_hdr_wire *out)
{
	struct sim_link *l = sim_of(link);

	if (l->cut)
		return -ECONNRESET;
	l->hdr_bytes += take(l, (uint8_t *)&l->hdr + l->hdr_bytes, sizeof(*out) - l->hdr_bytes);
	if (l->hdr_bytes < sizeof(*out))
		return 0;
	l->hdr_bytes = 0;
	*out = l->hdr;
	return fab__hdr_check(out) == le32_get(out->check) ? 1 : -EPROTO;
}

static int sim_recv_bytes(struct fab_link *link, uint32_t slot, void *dst, uint32_t size_bytes,
			  uint32_t *done_bytes)
{
	struct sim_link *l = sim_of(link);
	uint32_t left = size_bytes - *done_bytes;

	(void)slot;
	if (l->cut)
		return -ECONNRESET;
	if (left > 1 && l->net->delay_max_ns) /* not always all at once */
		left = 1 + (uint32_t)rand_below(&l->net->rand, left);
	*done_bytes += take(l, (uint8_t *)dst + *done_bytes, left);
	return *done_bytes == size_bytes;
}

void sim_link_inject(struct sim_link *l, const void *bytes, uint32_t size_bytes)
{
	struct sim_net *net = l->net;
	struct sim_message *m = malloc(sizeof(*m) + size_bytes);

	ASSERT(m);
	memcpy(m->bytes, bytes, size_bytes);
	m->size = size_bytes;
	m->at = 0;
	m->arrives_ns = net->now_ns;
	if (net->delay_max_ns)
		m->arrives_ns += rand_below(&net->rand, net->delay_max_ns);
	m->arrives_ns = max_u64(m->arrives_ns, l->arrives_ns);
	l->arrives_ns = m->arrives_ns;
	list_init(&m->node);
	list_push_back(&l->in, &m->node);
}

/* The bytes are taken now, and stay in flight a while longer all the same. */
static int sim_send(struct fab_link *link, struct fab_tx *tx)
{
	struct sim_link *l = sim_of(link);

	if (tx->body)
		tx->hdr.body.crc32c = le32_of(crc32c(tx->body, tx->body_bytes));
	tx->hdr.check = le32_of(fab__hdr_check(&tx->hdr));
	if (!l->cut) {
		uint32_t size = (uint32_t)sizeof(tx->hdr) + tx->body_bytes + tx->payload_bytes;
		uint8_t *bytes = malloc(size);

		ASSERT(bytes);
		memcpy(bytes, &tx->hdr, sizeof(tx->hdr));
		if (tx->body)
			memcpy(bytes + sizeof(tx->hdr), tx->body, tx->body_bytes);
		if (tx->payload)
			memcpy(bytes + sizeof(tx->hdr) + tx->body_bytes, tx->payload,
			       tx->payload_bytes);
		sim_link_inject(l->peer, bytes, size);
		free(bytes);
	}
	list_init(&tx->node);
	list_push_back(&l->in_flight, &tx->node);
	return 0;
}

static struct fab_tx *sim_sent(struct fab_link *link)
{
	struct list *node = list_pop_front(&sim_of(link)->in_flight);

	return node ? list_entry(node, struct fab_tx, node) : NULL;
}

static int sim_flush(struct fab_link *link)
{
	return sim_of(link)->cut ? -ECONNRESET : 0;
}

static bool sim_arm(struct fab_link *link)
{
	return !sim_of(link)->cut && !arrived(sim_of(link));
}

static void sim_disarm(struct fab_link *link)
{
	(void)link;
}

static void sim_close(struct fab_link *link)
{
	sim_link_cut(sim_of(link));
}

static const struct fab_transport sim_transport = {
	.name = "sim",
	.direct = false,
	.recv_header = sim_recv_header,
	.recv_bytes = sim_recv_bytes,
	.send = sim_send,
	.sent = sim_sent,
	.flush = sim_flush,
	.arm = sim_arm,
	.disarm = sim_disarm,
	.close = sim_close,
};

void sim_net_init(struct sim_net *net, uint64_t seed, uint64_t delay_max_ns)
{
	rand_seed(&net->rand, seed);
	net->now_ns = 1000000;
	net->delay_max_ns = delay_max_ns;
}

static void link_init(struct sim_net *net, struct sim_link *l, struct sim_link *peer)
{
	*l = (struct sim_link){ .link.ops = &sim_transport, .net = net, .peer = peer };
	list_init(&l->in);
	list_init(&l->in_flight);
}

void sim_link_pair(struct sim_net *net, struct sim_link *a, struct sim_link *b)
{
	link_init(net, a, b);
	link_init(net, b, a);
}

void sim_link_cut(struct sim_link *link)
{
	link->cut = true;
	link->peer->cut = true;
}

void sim_link_free(struct sim_link *link)
{
	struct list *node;

	while ((node = list_pop_front(&link->in)) != NULL)
		free(list_entry(node, struct sim_message, node));
}

static struct fab__session *place_take(struct fab_server *srv)
{
	for (uint32_t i = 0; i < srv->cfg.sessions_max; i++)
		if (!srv->sessions[i].control.used)
			return &srv->sessions[i];
	UNREACHABLE();
}

struct fab_conn *sim_net_connect(struct fab_server *srv, struct sim_link *server_end,
				 struct sim_link *client_end, const struct fab_limits *limits)
{
	struct fab__session *s = place_take(srv);
	struct fab_conn *conn = aligned_alloc(64, align_up(sizeof(*conn), 64));

	ASSERT(conn);
	s->control =
		(struct fab__session_control){ .fd = -1, .doorbells = { -1, -1 }, .in_fd = -1 };
	fab__control_take(s, true);
	fab__session_open(s, &server_end->link, limits, "sim", 1);
	s->opened = (struct fab_message){ .type = MESSAGE_OPENED, .session = s };
	ASSERT(spsc_push(&srv->to_core, &s->opened));

	memset(conn, 0, sizeof(*conn));
	conn->fd = conn->epoll_fd = conn->in_fd = -1;
	conn->doorbells[0] = conn->doorbells[1] = -1;
	ASSERT(fab__conn_open(conn, &client_end->link, limits, NULL) == 0);
	return conn;
}

uint32_t sim_net_end(struct fab_server *srv, struct fab_conn *conn, struct sim_link ends[2])
{
	struct fab_control_event control;
	struct fab_event events[8];
	uint32_t n, closed = 0;

	sim_link_cut(&ends[0]);
	for (int i = 0; i < 5; i++) {
		n = fab_server_poll(srv, 0, events, 8);
		for (uint32_t k = 0; k < n; k++) {
			if (events[k].type == FAB_EVENT_CANCEL)
				fab_reply(events[k].req, events[k].status, NULL, 0);
			closed += events[k].type == FAB_EVENT_SESSION_CLOSED;
		}
		if (fab_server_control_step(srv, 0, &control, 1))
			ASSERT(control.type == FAB_CONTROL_REFUSED);
	}
	fab_close(conn);
	sim_link_free(&ends[0]);
	sim_link_free(&ends[1]);
	fab_server_destroy(srv);
	return closed;
}

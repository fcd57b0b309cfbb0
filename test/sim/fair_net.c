/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/sim/fair_net.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SOCKET_BYTES  (1u << 20)  /* SO_SNDBUF, about  */
#define RECEIVE_BYTES (1u << 20)  /* the other side's  */
#define WIRE_BYTES    (64u << 10) /* of one in a row   */

struct letter {
	struct list node;
	struct fair_lane *lane;
	uint64_t at_ns;
	struct fab_hdr_wire hdr;
	uint32_t bytes;
	uint8_t body[];
};

struct mark { /* a reply ends here in the stream */
	struct list node;
	uint64_t end;
	uint64_t at_ns;
	struct fair_reply reply;
};

static struct fair_lane *lane_of(struct fab_link *link)
{
	return container_of(link, struct fair_lane, link);
}

/* ---- to the appliance ------------------------------------------------------------------------ */

void fair_send(struct fair_lane *lane, struct fab_hdr_wire *hdr, const void *body, uint32_t bytes)
{
	struct letter *l = malloc(sizeof(*l) + bytes);

	ASSERT(l);
	hdr->check = le32_of(fab__hdr_check(hdr));
	*l = (struct letter){ .lane = lane, .hdr = *hdr, .bytes = bytes };
	l->at_ns = lane->net->now_ns + lane->net->delay_ns;
	if (bytes)
		memcpy(l->body, body, bytes);
	list_init(&l->node);
	list_push_back(&lane->net->mail, &l->node); /* the delay is the same for all: in order */
}

static void deliver_mail(struct fair_net *net)
{
	while (!list_empty(&net->mail)) {
		struct letter *l = list_entry(net->mail.next, struct letter, node);

		if (l->at_ns > net->now_ns)
			return;
		list_del(&l->node);
		list_push_back(&l->lane->in, &l->node);
		l->lane->session->active = true; /* what epoll would say */
	}
}

static int recv_header(struct fab_link *link, struct fab_hdr_wire *out)
{
	struct fair_lane *lane = lane_of(link);
	struct letter *l;

	if (lane->cut)
		return -ECONNRESET;
	if (list_empty(&lane->in))
		return 0;
	l = list_entry(lane->in.next, struct letter, node);
	*out = l->hdr;
	lane->net->capsule_count++;
	lane->net->recv_count += l->node.next == &lane->in; /* one call took all that was there */
	if (l->bytes == 0) {
		list_del(&l->node);
		free(l);
	}
	return 1;
}

static int recv_bytes(struct fab_link *link, uint32_t slot, void *dst, uint32_t size_bytes,
		      uint32_t *done_bytes)
{
	struct letter *l = list_entry(list_pop_front(&lane_of(link)->in), struct letter, node);

	(void)slot;
	ASSERT(l->bytes == size_bytes);
	memcpy(dst, l->body, size_bytes);
	*done_bytes = size_bytes;
	free(l);
	return 1;
}

/* ---- from the appliance ---------------------------------------------------------------------- */

static int send_tx(struct fab_link *link, struct fab_tx *tx)
{
	struct fair_lane *lane = lane_of(link);

	list_init(&tx->node);
	list_push_back(lane->cut ? &lane->done : &lane->out, &tx->node);
	return 0;
}

static struct fab_tx *sent(struct fab_link *link)
{
	struct list *node = list_pop_front(&lane_of(link)->done);

	return node ? list_entry(node, struct fab_tx, node) : NULL;
}

static void mark(struct fair_lane *lane, const struct fab_tx *tx)
{
	struct mark *m = malloc(sizeof(*m));

	ASSERT(m);
	m->end = lane->put_bytes;
	m->reply = (struct fair_reply){ lane, le64_get(tx->hdr.request_id),
					(int32_t)le32_get(tx->hdr.deadline),
					le32_get(tx->hdr.window_block) };
	list_init(&m->node);
	list_push_back(&lane->marks, &m->node);
}

static bool may_go(const struct fair_lane *lane)
{
	return lane->put_bytes > lane->wire_bytes &&
	       (!lane->deaf || lane->wire_bytes < RECEIVE_BYTES);
}

/* Into the socket, as far as it has room. */
static int flush(struct fab_link *link)
{
	struct fair_lane *lane = lane_of(link);
	struct fair_net *net = lane->net;
	uint64_t room = SOCKET_BYTES - (lane->put_bytes - lane->wire_bytes), before = room;

	if (lane->cut)
		return -ECONNRESET;
	while (!list_empty(&lane->out) && room > 0) {
		struct fab_tx *tx = list_entry(lane->out.next, struct fab_tx, node);
		uint64_t size = sizeof(tx->hdr) + tx->body_bytes + (uint64_t)tx->payload_bytes;
		uint64_t n = min_u64(room, size - lane->out_at);

		room -= n;
		lane->out_at += n;
		lane->put_bytes += n;
		if (lane->out_at < size)
			break;
		lane->out_at = 0;
		list_del(&tx->node);
		list_push_back(&lane->done, &tx->node);
		if (tx->hdr.type == FAB_REPLY)
			mark(lane, tx);
	}
	lane->stuck = !list_empty(&lane->out);
	net->send_count += before > room || lane->stuck;
	net->sent_bytes += before - room;
	if (may_go(lane) && !list_linked(&lane->turn)) {
		if (list_empty(&net->wire))
			net->wire_free_ns = max_u64(net->wire_free_ns, net->now_ns);
		list_push_back(&net->wire, &lane->turn);
	}
	return 0;
}

static void heard(struct fair_lane *lane, uint64_t at_ns)
{
	while (!list_empty(&lane->marks)) {
		struct mark *m = list_entry(lane->marks.next, struct mark, node);

		if (m->end > lane->wire_bytes)
			return;
		m->at_ns = at_ns;
		list_del(&m->node);
		list_push_back(&lane->net->replies, &m->node);
	}
}

static void wire_go(struct fair_net *net)
{
	while (!list_empty(&net->wire) && net->wire_free_ns <= net->now_ns) {
		struct fair_lane *lane =
			list_entry(list_pop_front(&net->wire), struct fair_lane, turn);
		uint64_t n = min_u64(WIRE_BYTES, lane->put_bytes - lane->wire_bytes);

		net->wire_free_ns += n * 1000000000 / net->bytes_per_s;
		lane->wire_bytes += n;
		heard(lane, net->wire_free_ns + net->delay_ns);
		if (may_go(lane))
			list_push_back(&net->wire, &lane->turn);
		if (lane->stuck && lane->put_bytes - lane->wire_bytes <= SOCKET_BYTES / 2)
			fab__session_dirty(lane->session); /* epoll: it is writable */
	}
}

int fair_hear(struct fair_net *net, struct fair_reply *out)
{
	struct mark *m;

	deliver_mail(net);
	wire_go(net);
	if (list_empty(&net->replies))
		return 0;
	m = list_entry(net->replies.next, struct mark, node);
	if (m->at_ns > net->now_ns)
		return 0;
	*out = m->reply;
	list_del(&m->node);
	free(m);
	return 1;
}

uint64_t fair_net_next_ns(const struct fair_net *net)
{
	uint64_t next = UINT64_MAX;

	if (!list_empty(&net->mail))
		next = list_entry(net->mail.next, struct letter, node)->at_ns;
	if (!list_empty(&net->wire))
		next = min_u64(next, net->wire_free_ns);
	if (!list_empty(&net->replies))
		next = min_u64(next, list_entry(net->replies.next, struct mark, node)->at_ns);
	return next;
}

/* ---- begin and end --------------------------------------------------------------------------- */

static bool arm(struct fab_link *link)
{
	return list_empty(&lane_of(link)->in);
}

static void disarm(struct fab_link *link)
{
	(void)link;
}

static void free_list(struct list *l, size_t node_at)
{
	struct list *node;

	while ((node = list_pop_front(l)) != NULL)
		free((char *)node - node_at);
}

static void close_lane(struct fab_link *link)
{
	struct fair_lane *lane = lane_of(link);
	struct list *node;

	lane->cut = true;
	list_del(&lane->turn);
	while ((node = list_pop_front(&lane->out)) != NULL)
		list_push_back(&lane->done, node);
	free_list(&lane->in, offsetof(struct letter, node));
	free_list(&lane->marks, offsetof(struct mark, node));
}

static const struct fab_transport transport = {
	.name = "tcp",
	.recv_header = recv_header,
	.recv_bytes = recv_bytes,
	.send = send_tx,
	.sent = sent,
	.flush = flush,
	.arm = arm,
	.disarm = disarm,
	.close = close_lane,
};

void fair_net_init(struct fair_net *net)
{
	list_init(&net->mail);
	list_init(&net->wire);
	list_init(&net->replies);
}

static struct fab__session *place(struct fab_server *srv)
{
	for (uint32_t i = 0; i < srv->cfg.sessions_max; i++)
		if (!srv->sessions[i].control.used)
			return &srv->sessions[i];
	UNREACHABLE();
}

void fair_open(struct fair_net *net, struct fair_lane *lane, struct fab_server *srv,
	       const struct fab_limits *limits, uint32_t key, uint64_t pool_bytes)
{
	struct fab__session *s = place(srv);
	bool deaf = lane->deaf;
	void *client = lane->client;

	*lane = (struct fair_lane){
		.link.ops = &transport, .net = net, .session = s, .client = client, .deaf = deaf
	};
	list_init(&lane->in);
	list_init(&lane->out);
	list_init(&lane->done);
	list_init(&lane->marks);
	list_init(&lane->turn);
	s->control =
		(struct fab__session_control){ .fd = -1, .doorbells = { -1, -1 }, .in_fd = -1 };
	fab__control_take(s, true);
	fab__session_open(s, &lane->link, limits, "fair", 1);
	s->pub.key = key;
	s->pools[0].size_bytes = s->pools_bytes = pool_bytes;
	fab__pool_publish(&s->pools[0]);
	s->opened = (struct fab_message){ .type = MESSAGE_OPENED, .session = s };
	ASSERT(spsc_push(&srv->to_core, &s->opened));
}

/* Loses all bytes that are on their way. */
static void purge(struct fair_net *net, const struct fair_lane *lane)
{
	struct list *node, *next;

	for (node = net->mail.next; node != &net->mail; node = next) {
		struct letter *l = list_entry(node, struct letter, node);

		next = node->next;
		if (l->lane != lane)
			continue;
		list_del(node);
		free(l);
	}
	for (node = net->replies.next; node != &net->replies; node = next) {
		struct mark *m = list_entry(node, struct mark, node);

		next = node->next;
		if (m->reply.lane != lane)
			continue;
		list_del(node);
		free(m);
	}
}

void fair_cut(struct fair_lane *lane)
{
	purge(lane->net, lane);
	lane->cut = true;
	lane->session->active = true;
}

bool fair_is_gone(const struct fair_lane *lane)
{
	return lane->cut && !lane->session->control.used;
}

void fair_net_fini(struct fair_net *net, struct fair_lane *lanes, size_t stride, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		close_lane(&((struct fair_lane *)(void *)((char *)lanes + i * stride))->link);
	free_list(&net->mail, offsetof(struct letter, node));
	free_list(&net->replies, offsetof(struct mark, node));
}

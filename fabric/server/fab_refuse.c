/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Reports refusals to people: each once, with the peer's address, and never as fast as a peer can
 * cause them.
 *
 *   refused --first of its kind from there--> a line; then only counted for TELL_NS
 *      at the end of that time, if there were more: a line with their number
 *
 *   core: fab_session_refused() --bit--> control: the line of that session's peer
 *
 * Invariants:
 *  (1) Every refusal is counted; at most PLACES lines are written in TELL_NS.
 *  (2) A kind is: one address (whatever its port), one reason.
 *
 * R1 -> A1: the refusal is stored before control is told to look.
 */
#include "fabric/hello/fab_server_internal.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define TELL_NS      UINT64_C(10000000000)
#define TELL_CORE_NS UINT64_C(1000000000) /* of one session and kind, from core to control */

static void line_put(struct fab_control *c, bool is_notice, const char *text)
{
	/* (1) */
	ASSERT(c->refusal_count <= FAB_REFUSALS_MAX && c->notice_count <= FAB_REFUSALS_MAX);
	if (is_notice && c->notice_count < FAB_REFUSALS_MAX)
		snprintf(c->notices[c->notice_count++], FAB_WHY_MAX, "%s", text);
	else if (!is_notice && c->refusal_count < FAB_REFUSALS_MAX)
		snprintf(c->refusals[c->refusal_count++], FAB_WHY_MAX, "%s", text);
}

void fab__notice(struct fab_server *srv, const char *format, ...)
{
	struct fab_control *c = srv->control;
	va_list args;

	ASSERT(c->notice_count <= FAB_REFUSALS_MAX);
	if (c->notice_count == FAB_REFUSALS_MAX)
		return;
	va_start(args, format);
	vsnprintf(c->notices[c->notice_count++], FAB_WHY_MAX, format, args);
	va_end(args);
}

/* "127.0.0.1:4711" is of "127.0.0.1", "[::1]:4711" of "[::1]", "user 0, process 12" of "user 0". */
static size_t host_bytes(const char *peer)
{
	const char *from = peer[0] == '[' ? strchr(peer, ']') : peer;
	const char *end = from ? strpbrk(from, ":,") : NULL;

	return end ? (size_t)(end - peer) : strlen(peer);
}

static bool same_kind(const struct fab__refusal *r, const char *transport, const char *peer,
		      const char *why)
{
	size_t bytes = host_bytes(peer);

	return r->until_ns && strcmp(r->transport, transport) == 0 && strcmp(r->why, why) == 0 &&
	       host_bytes(r->peer) == bytes && memcmp(r->peer, peer, bytes) == 0;
}

static void expired(struct fab_control *c, struct fab__refusal *r)
{
	char text[FAB_WHY_MAX];

	ASSERT(r->until_ns && r->until_ns <= c->now_ns);
	if (r->more == 0) {
		r->until_ns = 0;
		return;
	}
	snprintf(text, sizeof(text), "%s %.*s: %.170s (%u times more)", r->transport,
		 (int)host_bytes(r->peer), r->peer, r->why, r->more);
	line_put(c, r->is_notice, text);
	r->more = 0;
	r->until_ns = c->now_ns + TELL_NS;
}

void fab__refusals_expire(struct fab_server *srv)
{
	struct fab_control *c = srv->control;

	for (uint32_t i = 0; i < FAB_REFUSAL_KINDS; i++)
		if (c->kinds[i].until_ns && c->kinds[i].until_ns <= c->now_ns)
			expired(c, &c->kinds[i]);
}

uint64_t fab__refusals_deadline(const struct fab_server *srv)
{
	uint64_t at_ns = UINT64_MAX;

	for (uint32_t i = 0; i < FAB_REFUSAL_KINDS; i++)
		if (srv->control->kinds[i].more > 0)
			at_ns = min_u64(at_ns, srv->control->kinds[i].until_ns);
	return at_ns;
}

static void tell(struct fab_control *c, bool is_notice, const char *transport, const char *peer,
		 const char *why)
{
	struct fab__refusal *place = NULL;
	char text[FAB_WHY_MAX];

	for (uint32_t i = 0; i < FAB_REFUSAL_KINDS; i++) {
		if (same_kind(&c->kinds[i], transport, peer, why)) {
			c->kinds[i].more++;
			return;
		}
		if (!c->kinds[i].until_ns)
			place = &c->kinds[i];
	}
	if (!place)
		return; /* (1) */
	ASSERT(!place->until_ns);
	place->until_ns = c->now_ns + TELL_NS;
	place->more = 0;
	place->is_notice = is_notice;
	snprintf(place->transport, sizeof(place->transport), "%s", transport);
	snprintf(place->peer, sizeof(place->peer), "%s", peer);
	snprintf(place->why, sizeof(place->why), "%s", why);
	ASSERT(same_kind(place, transport, peer, why)); /* (2) */
	snprintf(text, sizeof(text), "%s %.60s: %.180s", transport, peer, why);
	line_put(c, is_notice, text);
}

void fab__refused(struct fab_server *srv, const char *transport, const char *peer, const char *why)
{
	atomic_fetch_add_explicit(&srv->control->refused, 1, memory_order_relaxed);
	tell(srv->control, false, transport, peer, why);
}

void fab__noticed(struct fab_server *srv, const char *transport, const char *peer, const char *why)
{
	tell(srv->control, true, transport, peer, why);
}

/* ---- refusals of the core ------------------------------------------------------------------- */

void fab_session_refused(struct fab_session *session, enum fab_refusal what)
{
	struct fab__session *s = fab__session_of(session);
	uint64_t now_ns = s->srv->now_ns;

	ASSERT(what < FAB_REFUSALS_END);
	if (s->refused_ns[what] && now_ns - s->refused_ns[what] < TELL_CORE_NS)
		return;
	s->refused_ns[what] = now_ns ? now_ns : 1;
	atomic_fetch_or_explicit(&s->refusals, 1u << what, memory_order_relaxed);
	atomic_store_explicit(&s->srv->control->refusals_due, true, memory_order_release); /* R1 */
	fab__wake(s->srv->control->wake_fd);
}

void fab__session_refusals(struct fab__session *s)
{
	static const char *const text[FAB_REFUSALS_END] = {
		[FAB_REFUSED_WRITE] = "asked for a change, and its key may only read",
		[FAB_REFUSED_PATH] = "named what is outside its key's subtree",
		[FAB_REFUSED_USER] = "asked for what its key's user or subtree may not have",
		[FAB_REFUSED_HANDLE] =
			"named by handle or number what is not its key's, or is gone",
		[FAB_REFUSED_STATUS] = "asked for counters, and its key is confined to a subtree",
		[FAB_REFUSED_PROTOCOL] = "its session ended: it broke the protocol",
		[FAB_REFUSED_STALLED] = "its session ended: it took nothing for 30 s",
		[FAB_REFUSED_SLOW] =
			"takes none of the data that it asked for; after 30 s its session ends",
	};
	uint32_t bits = atomic_exchange_explicit(&s->refusals, 0, memory_order_relaxed);
	char why[FAB_WHY_MAX];

	ASSERT(!(bits >> FAB_REFUSALS_END));
	for (uint32_t i = 0; i < FAB_REFUSALS_END; i++) {
		if (!(bits & 1u << i))
			continue;
		snprintf(why, sizeof(why), "key \"%s\": %s", s->pub.key_id, text[i]);
		if (i == FAB_REFUSED_SLOW)
			fab__noticed(s->srv, s->pub.transport, s->control.peer, why);
		else
			fab__refused(s->srv, s->pub.transport, s->control.peer, why);
	}
}

void fab__refusals_collect(struct fab_server *srv)
{
	if (!atomic_exchange_explicit(&srv->control->refusals_due, false,
				      memory_order_acquire)) /* A1 */
		return;
	for (uint32_t core = 0; core < srv->control->core_count; core++) {
		struct fab_server *of = srv->control->cores[core];

		for (uint32_t i = 0; i < of->cfg.sessions_max; i++)
			if (of->sessions[i].control.used)
				fab__session_refusals(&of->sessions[i]);
	}
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The lines about requests, and windows of requests, that cannot be submitted as they are. */
#include "client-lib/client_internal.h"

#include <errno.h>

int client__window_bad(struct weka_client *c, const struct weka_window *w)
{
	const struct client_lease *lease = client__lease_of(c, w->lease);

	if (!lease)
		return client__say(c, -EINVAL, "the window's lease is not one of this client");
	if (!lease->client || lease->released)
		return client__say(c, -ESTALE, "the window's lease was released");
	if (w->size_bytes == 0 || (w->offset_bytes | w->size_bytes) % WEKA_BLOCK)
		return client__say(c, -EINVAL,
				   "a window of %llu bytes at %llu: both must be multiples of 4096",
				   (unsigned long long)w->size_bytes,
				   (unsigned long long)w->offset_bytes);
	if (w->size_bytes > c->window_max_bytes)
		return client__say(c, -EMSGSIZE,
				   "a window of %llu bytes: the appliance takes at most %u",
				   (unsigned long long)w->size_bytes, c->window_max_bytes);
	if (lease->orphans == 0)
		return client__say(
			c, -EINVAL, "a window of %llu bytes at %llu: its lease has %llu bytes",
			(unsigned long long)w->size_bytes, (unsigned long long)w->offset_bytes,
			(unsigned long long)lease->pub.size_bytes);
	return client__say(c, -EBUSY,
			   "the window's lease still has a request that ended before the appliance "
			   "let go of it: take another lease");
}

int client__req_bad(struct weka_client *c, struct weka_req *req)
{
	const struct client_req *priv;

	if (!req)
		return client__say(c, -EINVAL, "the request is NULL");
	priv = client__req(req);
	if (priv->state == CLIENT_REQ_DONE)
		return client__say(c, -EBUSY,
				   "the request has ended and was not reaped: weka_reap() first");
	if (priv->state == CLIENT_REQ_OUT && client__slot_of(c, req))
		return client__say(c, -EBUSY, "the request is in flight: weka_reap() first");
	if (priv->state == CLIENT_REQ_OUT)
		return client__say(
			c, -EBUSY,
			"the request is in flight with another client, or was not zeroed");
	return client__say(c, -EINVAL, "the request was not zeroed before its first use");
}

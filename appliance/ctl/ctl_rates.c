/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "appliance/ctl/ctl_rates.h"
#include "appliance/core/app_latency.h"
#include "appliance/ctl/ctl.h"
#include "base/num.h"

#include <stdlib.h>
#include <string.h>

const char *const ctl_order_name[CTL_ORDERS] = { "requests", "read", "written", "key" };

uint64_t ctl_growth(const json_t *now, const json_t *before, const char *group, const char *key)
{
	const uint64_t to = ctl_num(now, group, key), from = ctl_num(before, group, key);

	return to > from ? to - from : 0;
}

/* ---- clients ------------------------------------------------------------------------------- */

static bool same_word(const json_t *a, const json_t *b, const char *key)
{
	return strcmp(ctl_word(a, key).s, ctl_word(b, key).s) == 0;
}

/* Returns the same connection in an earlier status; NULL: it is new. */
static const json_t *earlier(const json_t *before, const json_t *of, size_t hint)
{
	const json_t *all = json_object_get(before, "clients"), *each;
	const uint64_t lane = ctl_num(of, NULL, "lane");
	const size_t count = json_array_size(all);

	/* Most often it is in the same place. */
	for (size_t i = 0; i < count; i++) {
		each = json_array_get(all, (hint + i) % count);
		if (ctl_num(each, NULL, "lane") == lane && same_word(each, of, "session"))
			return each;
	}
	return NULL;
}

static struct ctl_client *place_of(struct ctl_client *clients, uint32_t *count, const json_t *of)
{
	const struct ctl_text session = ctl_word(of, "session");

	for (uint32_t i = 0; i < *count; i++)
		if (strcmp(clients[i].session.s, session.s) == 0)
			return &clients[i];
	clients[*count] = (struct ctl_client){
		.session = session,
		.key = ctl_word(of, "key"),
		.transport = ctl_word(of, "transport"),
		.peer = ctl_word(of, "peer"),
	};
	return &clients[(*count)++];
}

static void add_connection(struct ctl_client *c, const json_t *now, const json_t *before)
{
	if (ctl_num(now, NULL, "lane") == 0)
		c->peer = ctl_word(now, "peer");
	c->connections++;
	c->connected_s = max_u64(c->connected_s, ctl_num(now, NULL, "connected_ns") / 1000000000);
	c->requests += ctl_growth(now, before, NULL, "requests");
	c->read_bytes += ctl_growth(now, before, NULL, "read_bytes");
	c->written_bytes += ctl_growth(now, before, NULL, "written_bytes");
	c->credits += ctl_num(now, NULL, "credits");
	c->running += ctl_num(now, NULL, "running");
	c->queued += ctl_num(now, NULL, "queued");
	c->opens += ctl_num(now, NULL, "opens");
}

uint32_t ctl_clients_of(const json_t *now, const json_t *before, struct ctl_client **out)
{
	const json_t *all = json_object_get(now, "clients"), *each;
	uint32_t count = 0;
	size_t i;

	*out = ctl_need(calloc(json_array_size(all) + 1, sizeof(**out)));
	json_array_foreach(all, i, each)
		add_connection(place_of(*out, &count, each), each, earlier(before, each, i));
	ASSERT(count <= json_array_size(all));
	return count;
}

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? 1 : a > b ? -1 : 0; /* the most first */
}

static int by_key(const void *a, const void *b)
{
	const struct ctl_client *x = a, *y = b;
	const int order = strcmp(x->key.s, y->key.s);

	return order ? order : strcmp(x->session.s, y->session.s);
}

static int by_requests(const void *a, const void *b)
{
	const struct ctl_client *x = a, *y = b;
	const int order = compare(x->requests, y->requests);

	return order ? order : by_key(a, b);
}

static int by_read(const void *a, const void *b)
{
	const struct ctl_client *x = a, *y = b;
	const int order = compare(x->read_bytes, y->read_bytes);

	return order ? order : by_requests(a, b);
}

static int by_written(const void *a, const void *b)
{
	const struct ctl_client *x = a, *y = b;
	const int order = compare(x->written_bytes, y->written_bytes);

	return order ? order : by_requests(a, b);
}

void ctl_clients_sort(struct ctl_client *clients, uint32_t count, enum ctl_order by)
{
	static int (*const orders[CTL_ORDERS])(const void *, const void *) = {
		[CTL_BY_REQUESTS] = by_requests,
		[CTL_BY_READ] = by_read,
		[CTL_BY_WRITTEN] = by_written,
		[CTL_BY_KEY] = by_key,
	};

	ASSERT(by < CTL_ORDERS);
	qsort(clients, count, sizeof(*clients), orders[by]);
}

json_t *ctl_client_json(const struct ctl_client *c)
{
	json_t *o =
		json_pack("{s:s,s:s,s:s,s:s,s:I,s:I,s:I,s:I,s:I}", "session", c->session.s, "key",
			  c->key.s, "transport", c->transport.s, "peer", c->peer.s, "connections",
			  (json_int_t)c->connections, "connected_s", (json_int_t)c->connected_s,
			  "requests", (json_int_t)c->requests, "read_bytes",
			  (json_int_t)c->read_bytes, "written_bytes", (json_int_t)c->written_bytes);

	ASSERT(o);
	json_object_set_new(o, "credits", json_integer((json_int_t)c->credits));
	json_object_set_new(o, "running", json_integer((json_int_t)c->running));
	json_object_set_new(o, "queued", json_integer((json_int_t)c->queued));
	json_object_set_new(o, "opens", json_integer((json_int_t)c->opens));
	return o;
}

/* ---- how long requests took: app_latency.h ------------------------------------------------- */

struct tally {
	struct ctl_text request;
	uint64_t count;
	uint64_t bucket[APP_LATENCY_BUCKETS];
};

/* Returns where the bucket begins, in microseconds. */
static double begin_of(uint32_t bucket)
{
	ASSERT(bucket < APP_LATENCY_BUCKETS);
	return bucket ? (double)app_latency_end_us(bucket - 1) : 0;
}

/* Returns the microseconds that `part` of the requests did not exceed, even within a bucket. */
static double quantile(const struct tally *t, double part)
{
	double left = (double)t->count * part;

	ASSERT(t->count > 0);
	ASSERT(part > 0 && part < 1);
	for (uint32_t i = 0; i < APP_LATENCY_BUCKETS - 1; i++) {
		const double n = (double)t->bucket[i];

		if (n > 0 && left <= n)
			return begin_of(i) +
			       left / n * ((double)app_latency_end_us(i) - begin_of(i));
		left -= n;
	}
	return begin_of(APP_LATENCY_BUCKETS - 1);
}

static const json_t *earlier_latency(const json_t *before, const json_t *of)
{
	const json_t *each;
	size_t i;

	json_array_foreach(json_object_get(before, "latency"), i,
			   each) if (same_word(each, of, "transport") &&
				     same_word(each, of, "request")) return each;
	return NULL;
}

static uint64_t bucket_of(const json_t *latency, uint32_t i)
{
	const json_t *v = json_array_get(json_object_get(latency, "buckets"), i);

	return json_is_integer(v) && json_integer_value(v) > 0 ? (uint64_t)json_integer_value(v)
							       : 0;
}

static void add_latency(struct tally *t, const json_t *now, const json_t *before)
{
	for (uint32_t i = 0; i < APP_LATENCY_BUCKETS; i++) {
		const uint64_t to = bucket_of(now, i), from = bucket_of(before, i);

		t->bucket[i] += to > from ? to - from : 0;
		t->count += to > from ? to - from : 0;
	}
}

static struct tally *tally_of(struct tally *all, uint32_t *count, const json_t *of)
{
	const struct ctl_text request = ctl_word(of, "request");

	for (uint32_t i = 0; i < *count; i++)
		if (strcmp(all[i].request.s, request.s) == 0)
			return &all[i];
	if (*count == CTL_KINDS_MAX)
		return NULL;
	all[*count] = (struct tally){ .request = request };
	return &all[(*count)++];
}

static int by_count(const void *a, const void *b)
{
	const struct ctl_kind *x = a, *y = b;
	const int order = compare(x->count, y->count);

	return order ? order : strcmp(x->request.s, y->request.s);
}

uint32_t ctl_kinds_of(const json_t *now, const json_t *before, struct ctl_kind out[CTL_KINDS_MAX])
{
	struct tally *all = ctl_need(calloc(CTL_KINDS_MAX, sizeof(*all))), *t;
	uint32_t kinds = 0, count = 0;
	const json_t *each;
	size_t k;

	json_array_foreach(json_object_get(now, "latency"), k, each)
	{
		t = tally_of(all, &kinds, each);
		if (t)
			add_latency(t, each, earlier_latency(before, each));
	}
	for (uint32_t i = 0; i < kinds; i++) {
		if (!all[i].count)
			continue;
		out[count++] =
			(struct ctl_kind){ all[i].request, all[i].count, quantile(&all[i], 0.5),
					   quantile(&all[i], 0.99), quantile(&all[i], 0.999) };
	}
	free(all);
	qsort(out, count, sizeof(*out), by_count);
	return count;
}

/* ---- cores --------------------------------------------------------------------------------- */

struct ctl_core_time ctl_core_time(const json_t *now, const json_t *before, size_t core,
				   double seconds)
{
	const json_t *to = json_array_get(json_object_get(now, "cores"), core);
	const json_t *from = json_array_get(json_object_get(before, "cores"), core);
	const double all = seconds * 1e9;
	struct ctl_core_time t;

	if (all <= 0)
		return (struct ctl_core_time){ 0 };
	/* A sleep is counted when it ends, perhaps with time from before. */
	t.asleep = 100.0 * (double)ctl_growth(to, from, NULL, "slept_ns") / all;
	t.polling = 100.0 * (double)ctl_growth(to, from, NULL, "spun_ns") / all;
	if (t.asleep > 100)
		t.asleep = 100;
	if (t.asleep + t.polling > 100)
		t.polling = 100 - t.asleep;
	t.busy = 100 - t.asleep - t.polling;
	ASSERT(t.busy >= 0 && t.busy <= 100);
	return t;
}

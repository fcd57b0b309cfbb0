/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Answers to requests.
 *
 *   request --method--> 405   --Host--> 403   --token--> 401   --path--> 404
 *                  |
 *                  \--> a file of the page, or text of the snapshot --none in time--> 503
 *
 * Invariants:
 *  (1) A snapshot is taken at most every FRESH_NS, and its text is written once.  So strangers'
 *      requests cost the polling threads no more than one reader's do.
 *  (2) A response owns its bytes.  They live until the last connection has sent them
 *      [e2e_metrics].
 */
#include "appliance/http/app_http_internal.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FRESH_NS (500 * NS_PER_MS)
#define WAIT_MS  500
#define SAID_NS  (10 * NS_PER_S) /* one line about refusals in this time */

/* ---- headers ----------------------------------------------------------------------------- */

static void add_header(struct MHD_Response *r, const char *name, const char *value)
{
	(void)MHD_add_response_header(r, name, value); /* it fails without memory only */
}

static struct MHD_Response *response_of(const char *type, void *bytes, size_t size,
					enum MHD_ResponseMemoryMode mode)
{
	struct MHD_Response *r = MHD_create_response_from_buffer(size, bytes, mode);

	if (!r)
		return NULL;
	add_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	add_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	add_header(r, "X-Content-Type-Options", "nosniff");
	add_header(r, "Referrer-Policy", "no-referrer");
	add_header(r, "Cross-Origin-Resource-Policy", "same-origin");
	add_header(r, "Content-Security-Policy",
		   "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
		   "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
	return r;
}

static enum MHD_Result give(struct MHD_Connection *c, unsigned int code, struct MHD_Response *r)
{
	enum MHD_Result result = r ? MHD_queue_response(c, code, r) : MHD_NO;

	if (r)
		MHD_destroy_response(r); /* (2): the connection's from now on */
	return result;                   /* MHD_NO: the connection is closed */
}

/* A line for people; with one more header where `name` is given. */
static enum MHD_Result say(struct MHD_Connection *c, unsigned int code, const char *text,
			   const char *name, const char *value)
{
	struct MHD_Response *r = response_of("text/plain; charset=utf-8", (void *)(uintptr_t)text,
					     strlen(text), MHD_RESPMEM_PERSISTENT);

	if (r && name)
		add_header(r, name, value);
	return give(c, code, r);
}

/* ---- the snapshot ------------------------------------------------------------------------ */

static void drop(struct http__answers *a)
{
	for (uint32_t i = 0; i < HTTP__KINDS; i++) {
		if (a->fresh[i])
			MHD_destroy_response(a->fresh[i]);
		a->fresh[i] = NULL;
	}
}

static void refresh(struct http__answers *a)
{
	uint64_t now_ns = clock_now_ns();

	if (a->taken_ns && now_ns - a->taken_ns < FRESH_NS)
		return; /* (1) */
	drop(a);
	a->status = app_ask_wait(a->ask, WAIT_MS, &a->snapshot);
	a->taken_ns = clock_now_ns();
	ASSERT(a->taken_ns >= now_ns && (a->status || a->snapshot)); /* (1) */
}

static void put_status(struct http__text *t, const struct app_snapshot *s)
{
	t->bytes = malloc(APP_SNAPSHOT_JSON_BYTES);
	t->failed = !t->bytes;
	if (t->bytes)
		t->used = app_snapshot_json(s, APP_SHOW_DRIVES, t->bytes, APP_SNAPSHOT_JSON_BYTES);
}

static struct MHD_Response *written(struct http__answers *a, enum http__kind kind)
{
	static const char *const type[HTTP__KINDS] = {
		[HTTP__METRICS] = "text/plain; version=0.0.4; charset=utf-8",
		[HTTP__STATUS] = "application/json",
	};
	struct http__text t = { 0 };
	struct MHD_Response *r = NULL;
	char *fitting;

	ASSERT(!a->fresh[kind] && a->snapshot); /* (1) */
	if (kind == HTTP__METRICS)
		http__metrics(&t, a->snapshot, &a->limits);
	else
		put_status(&t, a->snapshot);
	ASSERT(t.failed || t.used > 0);
	fitting = t.failed ? NULL : realloc(t.bytes, t.used + 1);
	if (fitting) {
		t.bytes = fitting;
		r = response_of(type[kind], t.bytes, t.used, MHD_RESPMEM_MUST_FREE);
	}
	if (r)
		add_header(r, "X-Weka-Version", a->limits.version);
	else
		http__text_free(&t);
	return r;
}

static enum MHD_Result tell(struct http__answers *a, struct MHD_Connection *c, enum http__kind kind)
{
	refresh(a);
	if (a->status == -ESHUTDOWN)
		return say(c, MHD_HTTP_SERVICE_UNAVAILABLE, "the appliance is stopping\n", NULL,
			   NULL);
	if (a->status)
		return say(c, MHD_HTTP_SERVICE_UNAVAILABLE,
			   "the polling threads have not answered within 500 ms: they are busy, or "
			   "a drive holds them up\n",
			   NULL, NULL);
	if (!a->fresh[kind])
		a->fresh[kind] = written(a, kind);
	return a->fresh[kind] ? MHD_queue_response(c, MHD_HTTP_OK, a->fresh[kind]) : MHD_NO;
}

/* ---- requests ---------------------------------------------------------------------------- */

static const char *header(struct MHD_Connection *c, const char *name)
{
	return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

static void count_refusal(struct http__answers *a)
{
	uint64_t now_ns = clock_now_ns();

	a->refused++;
	if (a->said_ns && now_ns - a->said_ns < SAID_NS)
		return;
	log_warn("WEKA-501: metrics: %llu requests without the token were refused",
		 (unsigned long long)a->refused);
	a->said_ns = now_ns;
	a->refused = 0;
}

static enum MHD_Result send_file(struct MHD_Connection *c, const struct http__file *f)
{
	return give(c, MHD_HTTP_OK,
		    response_of(f->type, (void *)(uintptr_t)f->from, (size_t)(f->end - f->from),
				MHD_RESPMEM_PERSISTENT));
}

static enum MHD_Result answer_path(struct http__answers *a, struct MHD_Connection *c,
				   const char *url)
{
	if (strcmp(url, "/metrics") == 0)
		return tell(a, c, HTTP__METRICS);
	if (strcmp(url, "/status.json") == 0)
		return tell(a, c, HTTP__STATUS);
	for (size_t i = 0; i < http__file_count; i++)
		if (strcmp(url, http__files[i].url) == 0)
			return send_file(c, &http__files[i]);
	return say(c, MHD_HTTP_NOT_FOUND, "there are /, /metrics and /status.json\n", NULL, NULL);
}

enum MHD_Result http__answer(void *answers, struct MHD_Connection *c, const char *url,
			     const char *method, const char *version, const char *upload,
			     size_t *upload_bytes, void **of_request)
{
	struct http__answers *a = answers;
	const bool has_begun = *of_request != NULL;

	(void)version;
	(void)upload;
	*of_request = a;
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return say(c, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n",
			   MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	if (!has_begun) /* an answer now would cost the connection: it might have a body */
		return MHD_YES;
	if (*upload_bytes)
		return MHD_NO;
	if (!a->token[0] && !http__host_is_ours(header(c, MHD_HTTP_HEADER_HOST)))
		return say(c, MHD_HTTP_FORBIDDEN,
			   "without metrics_token_file, ask for a number or localhost\n", NULL,
			   NULL);
	if (a->token[0] && !http__has_token(header(c, MHD_HTTP_HEADER_AUTHORIZATION), a->token)) {
		count_refusal(a);
		return say(c, MHD_HTTP_UNAUTHORIZED, "the token of metrics_token_file is wanted\n",
			   MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Basic realm=\"weka-appliance\"");
	}
	return answer_path(a, c, url);
}

void http__answers_end(struct http__answers *a)
{
	drop(a);
	explicit_bzero(a->token, sizeof(a->token));
}

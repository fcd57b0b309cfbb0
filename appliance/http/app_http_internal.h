/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Shared by the files of appliance/http/ and their tests only. */
#ifndef APP_HTTP_INTERNAL_H
#define APP_HTTP_INTERNAL_H

#include "appliance/http/app_http.h"

#include <microhttpd.h>

/* ---- app_http_text.c: text that grows ---------------------------------------------------- */

struct http__text {
	char *bytes; /* malloc'ed */
	size_t used;
	size_t capacity;
	bool failed; /* no memory, or more than HTTP__TEXT_MAX: bytes are not to be sent */
};

#define HTTP__TEXT_MAX (4u << 20)

void http__put(struct http__text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void http__text_free(struct http__text *t);

/* ---- app_http_metrics.c, app_http_families.c --------------------------------------------- */

struct http__limits {
	uint32_t sessions_max;
	uint32_t credits; /* of a session */
	const char *version, *commit, *variant;
};

/* Writes a snapshot as Prometheus' text format. */
void http__metrics(struct http__text *t, const struct app_snapshot *s,
		   const struct http__limits *limits);

/* A counter or gauge without labels: a 64-bit number of the snapshot, times a factor. */
struct http__family {
	const char *name; /* after "weka_"; one that ends in _total is a counter */
	const char *help;
	size_t at; /* in struct app_snapshot */
	double factor;
};
extern const struct http__family http__families[];
extern const size_t http__family_count;

/* ---- app_http_page.c: the page's files --------------------------------------------------- */

struct http__file {
	const char *url, *type;
	const char *from, *end;
};
extern const struct http__file http__files[];
extern const size_t http__file_count;

/* ---- app_http_gate.c: admission ---------------------------------------------------------- */

/* May a request with this Host header (NULL: none) be answered without a token?  A name other than
 * localhost may be a foreign page's, which a browser was made to take for this machine. */
bool http__host_is_ours(const char *host);

/* Does the Authorization header (NULL: none) have the token, as a bearer or as a password? */
bool http__has_token(const char *authorization, const char *token);

/* ---- app_http_answer.c ------------------------------------------------------------------- */

enum http__kind { HTTP__METRICS, HTTP__STATUS, HTTP__KINDS };

/* Answers that all connections share: of one snapshot, and those that never change. */
struct http__answers {
	struct app_ask *ask;
	struct http__limits limits;
	char token[APP_TOKEN_MAX + 1]; /* "": none is asked for */
	uint64_t taken_ns;             /* when the snapshot was, or could not be; 0: never */
	int status;                    /* ... and whether it could */
	const struct app_snapshot *snapshot;
	struct MHD_Response *fresh[HTTP__KINDS]; /* of that snapshot; NULL: not yet written */
	uint64_t refused;                        /* requests without the token, since said_ns */
	uint64_t said_ns;
};

/* The handler of libmicrohttpd; `answers` is a struct http__answers. */
enum MHD_Result http__answer(void *answers, struct MHD_Connection *c, const char *url,
			     const char *method, const char *version, const char *upload,
			     size_t *upload_bytes, void **of_request);
void http__answers_end(struct http__answers *a);

#endif

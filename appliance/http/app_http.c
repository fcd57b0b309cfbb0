/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Serves connections by the library's thread.
 *
 *   connect --> a free place --> requests --> closed, or shut as too slow: the place is free
 *
 * Invariants:
 *  (1) At most APP_HTTP_CONNECTIONS_MAX connections are open, the last of them only until it is
 *      turned out [e2e_metrics].
 *  (2) The library closes a connection IDLE_S after its last byte.  One that has finished no
 *      request for SLOW_NS is shut when anybody connects or asks.  So somebody who sends or takes a
 *      byte now and then keeps nobody out, and keeps no memory, for longer [e2e_metrics].
 *  (3) Each connection has PARSE_BYTES, and its headers are parsed there.
 *  (4) A snapshot's text lives while it is being sent.  There are two snapshots a second at most,
 *      and a new one comes with a request; so by (2) some thirty texts live at once.  With (1) and
 *      (3) this bounds the memory: HTTP_BYTES of app_account.c [e2e_metrics].
 *  (5) All but start and stop runs in the library's thread.  It waits with poll(): its epoll mode
 *      misses the end of a client that closes its half in the same segment.
 */
#define _GNU_SOURCE
#include "appliance/http/app_http_internal.h"
#include "appliance/conf/app_conf_metrics.h"
#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define IDLE_S      10u
#define SLOW_NS     (15 * NS_PER_S)
#define PARSE_BYTES ((size_t)8 << 10)
#define BACKLOG     128

struct connection {
	int fd; /* -1: a free place; the library's, which closes it */
	uint64_t since_ns;
};

struct app_http {
	struct MHD_Daemon *library;
	struct http__answers answers;
	struct connection connection[APP_HTTP_CONNECTIONS_MAX];
	bool has_thread; /* of the library, since its first request */
	pthread_t thread;
};

/* (3): a few MiB, and room in them for the largest request that a browser sends */
static_assert(APP_HTTP_CONNECTIONS_MAX * PARSE_BYTES <= (4u << 20) && PARSE_BYTES >= 4096, "bound");

/* ---- connections ------------------------------------------------------------------------- */

static struct connection *find(struct app_http *h, int fd)
{
	for (uint32_t i = 0; i < APP_HTTP_CONNECTIONS_MAX; i++)
		if (h->connection[i].fd == fd)
			return &h->connection[i];
	return NULL;
}

static int fd_of(struct MHD_Connection *c)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);

	return info ? info->connect_fd : -1;
}

/* (2): the library sees their end, and closes them.  Returns true if there were any. */
static bool shut_slow(struct app_http *h)
{
	uint64_t now_ns = clock_now_ns();
	bool any = false;

	for (uint32_t i = 0; i < APP_HTTP_CONNECTIONS_MAX; i++) {
		const struct connection *c = &h->connection[i];

		if (c->fd < 0 || now_ns - c->since_ns <= SLOW_NS)
			continue;
		shutdown(c->fd, SHUT_RDWR);
		any = true;
	}
	return any;
}

/* A newcomer who takes the last place is turned out, unless a slow one is: else nobody would be
 * accepted any more, and slow ones would stay. */
static void comes_or_goes(void *http, struct MHD_Connection *c, void **of_connection,
			  enum MHD_ConnectionNotificationCode what)
{
	const bool comes = what == MHD_CONNECTION_NOTIFY_STARTED;
	const int fd = fd_of(c);
	struct connection *place = find(http, comes ? -1 : fd);

	(void)of_connection;
	if (!place || fd < 0)
		return;
	place->fd = comes ? fd : -1;
	place->since_ns = clock_now_ns();
	if (!comes)
		return;
	if (!shut_slow(http) && !find(http, -1))
		shutdown(fd, SHUT_RDWR);
}

static void answered(void *http, struct MHD_Connection *c, void **of_request,
		     enum MHD_RequestTerminationCode how)
{
	struct connection *place = find(http, fd_of(c));

	(void)of_request;
	if (place && how == MHD_REQUEST_TERMINATED_COMPLETED_OK)
		place->since_ns = clock_now_ns();
}

static enum MHD_Result asked(void *http, struct MHD_Connection *c, const char *url,
			     const char *method, const char *version, const char *upload,
			     size_t *upload_bytes, void **of_request)
{
	struct app_http *h = http;

	if (!h->has_thread) {
		h->has_thread = true;
		h->thread = pthread_self();
	}
	ASSERT(pthread_equal(h->thread, pthread_self())); /* (5) */
	(void)shut_slow(h);
	return http__answer(&h->answers, c, url, method, version, upload, upload_bytes, of_request);
}

/* ---- start and stop ---------------------------------------------------------------------- */

/* The CPUs that no polling thread has, if there are any. */
static bool choose_cpus(const struct app_http_cfg *cfg, cpu_set_t *was, cpu_set_t *out)
{
	if (sched_getaffinity(0, sizeof(*was), was))
		return false;
	*out = *was;
	for (uint32_t i = 0; i < cfg->cpu_count; i++)
		if (cfg->cpus[i] >= 0)
			CPU_CLR((size_t)cfg->cpus[i], out);
	return CPU_COUNT(out) > 0;
}

static int listen_at(const struct app_conf *conf, int *out, char *why)
{
	char line[APP_CONF_TEXT_MAX + 128];
	struct app_conf_address at;
	int fd, err, yes = 1;

	err = app_conf_metrics_address(conf->metrics, &at);
	if (err)
		return err; /* app_conf_load() has refused it */
	ASSERT(at.size_bytes > 0 && at.size_bytes <= sizeof(at.address));
	fd = socket(at.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) &&
	    !bind(fd, (struct sockaddr *)&at.address, at.size_bytes) && !listen(fd, BACKLOG)) {
		*out = fd;
		return 0;
	}
	err = -errno;
	if (fd >= 0)
		close(fd);
	snprintf(line, sizeof(line), "%s: %s", conf->metrics, strerror(-err));
	app_conf_blame(conf, APP_CONF_METRICS, why, line);
	return err;
}

static struct MHD_Daemon *start_library(struct app_http *h, int listen_fd)
{
	return MHD_start_daemon(
		MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_ITC, 0, NULL, NULL, asked, h,
		MHD_OPTION_LISTEN_SOCKET, (MHD_socket)listen_fd, MHD_OPTION_CONNECTION_LIMIT,
		APP_HTTP_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, PARSE_BYTES, MHD_OPTION_NOTIFY_CONNECTION,
		comes_or_goes, h, MHD_OPTION_NOTIFY_COMPLETED, answered, h, MHD_OPTION_END);
}

static int begin(struct app_http *h, const struct app_http_cfg *cfg, char *why)
{
	cpu_set_t was, cpus;
	bool moves;
	int fd = -1, err = listen_at(cfg->conf, &fd, why);

	if (err)
		return err;
	/* A thread begins where the one runs that makes it.  If that fails it runs anywhere. */
	moves = choose_cpus(cfg, &was, &cpus) && !sched_setaffinity(0, sizeof(cpus), &cpus);
	h->library = start_library(h, fd);
	if (moves)
		(void)sched_setaffinity(0, sizeof(was), &was);
	if (h->library)
		return 0;
	close(fd);
	app_conf_blame(cfg->conf, APP_CONF_METRICS, why, "libmicrohttpd does not start");
	return -EIO;
}

int app_http_start(struct app_http **out, const struct app_http_cfg *cfg, char *why)
{
	struct app_http *h = calloc(1, sizeof(*h));
	int err;

	if (!h) {
		app_conf_blame(cfg->conf, APP_CONF_METRICS, why, "no memory");
		return -ENOMEM;
	}
	h->answers = (struct http__answers){
		.ask = cfg->ask,
		.limits = { .sessions_max = (uint32_t)cfg->conf->sessions_max,
			    .credits = (uint32_t)cfg->conf->credits,
			    .version = cfg->version,
			    .commit = cfg->commit,
			    .variant = cfg->variant },
	};
	for (uint32_t i = 0; i < APP_HTTP_CONNECTIONS_MAX; i++)
		h->connection[i].fd = -1;
	err = app_conf_metrics_token(cfg->conf, h->answers.token, why);
	if (!err)
		err = begin(h, cfg, why);
	if (err) {
		http__answers_end(&h->answers);
		free(h);
		return err;
	}
	ASSERT(h->library);
	*out = h;
	return 0;
}

void app_http_stop(struct app_http *h)
{
	if (!h)
		return;
	MHD_stop_daemon(h->library);
	http__answers_end(&h->answers);
	free(h);
}

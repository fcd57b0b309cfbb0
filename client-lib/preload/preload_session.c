/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Sessions.  A thread gets one with its first call on a path of the appliance's, and leaves it to
 * the next thread when it ends.
 *
 *     none --first call--> a thread's --its end--> idle --first call--> another thread's
 *
 * After a fork() the child closes all that it has inherited; the parent's go on.  While the
 * appliance is away, each thread tries it once a second; the other calls go to the real path.
 *
 *  (1) A session is idle, or belongs to one thread.
 *  (2) A session is used by one call at a time: a signal handler in the middle of one gets none
 *      [e2e_preload].
 */
#define _GNU_SOURCE
#include "client-lib/preload/preload.h"

#include "base/clock.h"
#include "client-lib/preload/preload_load.h"

#include <pthread.h>
#include <time.h>

#define AWAY_NS    NS_PER_S /* pause before an appliance that is away is tried again */
#define PATIENT_NS NS_PER_S /* how long a call waits where the mount can wait instead */
#define POOL_BYTES (1u << 20)
#define IDLE_MAX   4u

_Thread_local bool preload_inside __attribute__((tls_model("initial-exec")));
static _Thread_local struct preload_session *mine __attribute__((tls_model("initial-exec")));
static _Thread_local bool has_ended __attribute__((tls_model("initial-exec")));
static _Thread_local int cancel_state __attribute__((tls_model("initial-exec")));
static _Thread_local int kept_errno __attribute__((tls_model("initial-exec")));

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct preload_session *sessions;
static pthread_key_t key;

/* ---- connecting ----------------------------------------------------------------------------- */

static int connect_once(struct preload_session *s, uint64_t wait_ns)
{
	const struct preload_args *a = &preload_setup.args;
	static const char nothing[32];
	const struct weka_key by_file = { .id = a->key_id, .file = a->key_file };
	const struct weka_key root = { .id = "@root", .secret = nothing };
	const struct weka_options options = {
		.size_bytes = sizeof(options),
		.requests_max = 4,
		.batches_max = 2,
		.batch_items_max = PRELOAD_ITEMS,
		.leases_max = 4,
		.lanes = 1,
		.opens_max = 1,
		.pool_bytes = POOL_BYTES,
		.connect_timeout_ns = wait_ns,
		.timeout_ns = wait_ns,
		.reconnect_ns = wait_ns,
	};
	const struct weka_key *is = a->key_file ? &by_file : &root;

	return WEKA->weka_connect(a->addresses, a->anonymous ? NULL : is, &options, &s->client);
}

/* Without a mount that could wait instead, waits for an appliance that is being restarted. */
static int connect_to(struct preload_session *s)
{
	static const struct timespec pause = { .tv_nsec = 50 * (long)NS_PER_MS };
	const bool is_mounted = preload_is_mounted();
	const uint64_t wait_ns = is_mounted ? PATIENT_NS : preload_setup.args.timeout_ns;
	const uint64_t until_ns = clock_now_ns() + wait_ns;
	int err = connect_once(s, wait_ns);

	while (!is_mounted && (err == -ECONNREFUSED || err == -ENOENT) &&
	       clock_now_ns() < until_ns) {
		(void)nanosleep(&pause, NULL);
		err = connect_once(s, wait_ns);
	}
	return err;
}

/* Says once why nothing is served: a key that is refused would otherwise go unnoticed. */
static void complain(int err)
{
	static atomic_bool said;

	if ((err == -EACCES || err == -EINVAL || err == -EIO) &&
	    !atomic_exchange_explicit(&said, true, memory_order_relaxed))
		fprintf(stderr, "libweka-preload: %s\n", WEKA->weka_error(NULL));
}

/* Connects, if that is due; with a lease for the payload of one call. */
static bool get_ready(struct preload_session *s)
{
	int err = 0;

	ASSERT(s == mine && !s->is_idle); /* (1) */
	if (likely(s->client && s->lease))
		return clock_now_ns() >= s->retry_ns || s->retry_ns == 0;
	if (s->retry_ns > clock_now_ns() || !WEKA)
		return false;
	if (!s->client)
		err = connect_to(s);
	if (err)
		complain(err);
	if (!err)
		err = WEKA->weka_lease(s->client, POOL_BYTES / 2, &s->lease);
	if (err)
		preload_session_away(s);
	return !err;
}

void preload_session_away(struct preload_session *s)
{
	s->retry_ns = clock_now_ns() + AWAY_NS;
	/* A request that was given up may still write to the old lease. */
	if (s->client && s->lease)
		(void)WEKA->weka_release(s->client, s->lease);
	s->lease = NULL;
}

/* ---- a thread's ---------------------------------------------------------------------------- */

static struct preload_session *session_take(void)
{
	struct preload_session *s;

	pthread_mutex_lock(&lock);
	for (s = sessions; s && !s->is_idle; s = s->next)
		;
	if (!s) {
		s = calloc(1, sizeof(*s));
		if (s) {
			s->next = sessions;
			sessions = s;
		}
	}
	if (s)
		s->is_idle = false;
	pthread_mutex_unlock(&lock);
	return s;
}

/* The thread ends. */
static void session_give(void *of)
{
	struct preload_session *s = of, *other;
	uint32_t idle_count = 0;

	preload_inside = true;
	pthread_mutex_lock(&lock);
	for (other = sessions; other; other = other->next)
		idle_count += other->is_idle;
	pthread_mutex_unlock(&lock);
	if (idle_count >= IDLE_MAX && s->client) {
		WEKA->weka_close(s->client);
		s->client = NULL;
		s->lease = NULL;
		s->retry_ns = 0;
	}
	pthread_mutex_lock(&lock);
	ASSERT(!s->is_idle); /* (1) */
	s->is_idle = true;
	pthread_mutex_unlock(&lock);
	mine = NULL;
	has_ended = true;
	preload_inside = false;
}

struct preload_session *preload_session_enter(bool *is_away)
{
	*is_away = false;
	if (preload_inside || has_ended || !preload_setup.is_active || preload_in_vfork())
		return NULL; /* (2) */
	preload_inside = true;
	kept_errno = errno;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	if (unlikely(!mine)) {
		mine = session_take();
		if (mine)
			pthread_setspecific(key, mine);
	}
	if (mine && get_ready(mine))
		return mine;
	preload_session_leave(mine);
	*is_away = true;
	return NULL;
}

void preload_session_leave(struct preload_session *s)
{
	ASSERT(preload_inside && s == mine);
	pthread_setcancelstate(cancel_state, NULL);
	errno = kept_errno; /* a call that succeeds leaves it alone: see readdir() */
	preload_inside = false;
}

/* ---- fork() -------------------------------------------------------------------------------- */

static void fork_begins(void)
{
	if (!preload_in_vfork())
		preload_settle_all(false);
	pthread_mutex_lock(&lock);
}

static void fork_parent(void)
{
	pthread_mutex_unlock(&lock);
}

static void fork_child(void)
{
	struct preload_session *s, *next;
	const bool was_inside = preload_inside;

	preload_inside = true;
	for (s = sessions; s; s = next) {
		next = s->next;
		if (s->client)
			WEKA->weka_close(s->client);
		s->client = NULL;
		s->lease = NULL;
		s->retry_ns = 0;
		s->is_idle = s != mine;
	}
	preload_inside = was_inside;
	pthread_mutex_unlock(&lock);
}

void preload_session_setup(void)
{
	(void)pthread_key_create(&key, session_give);
	(void)pthread_atfork(fork_begins, fork_parent, fork_child);
}

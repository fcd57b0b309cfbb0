/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The flooder: DEPTH reads of 4 MiB, each submitted again as soon as it may be; every second one is
 * cancelled at once.
 *
 *   parent            child
 *   go    --'g'-->    connect, weigh a read
 *         <--'k'--    flood, sleep, flood, sleep, ...
 *   rest  --'r'-->    stop
 *         <--said--   disconnect, wait
 *   end   --EOF-->    gone
 *
 * With soft-RoCE the kernel does the card's work and moves payload in softirqs, which are not
 * counted for any process.  So the cost of a read is measured first, while nothing else runs, by
 * the time that all CPUs spend in softirqs.  It is added to the flooder's own use; a part of it is
 * counted twice, never to the flooder's advantage.
 */
#define _GNU_SOURCE
#include "bench/bench_flood.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/rand.h"
#include "bench/bench.h"
#include "bench/bench_env.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEPTH    16u
#define BYTES    (4u << 20)
#define BURST_NS (100 * NS_PER_US)
#define WEIGH_NS (3 * NS_PER_S)

struct bench_flood {
	struct bench_env *env;
	const char *path;
	pid_t pid;
	int fd;
};

struct one {
	struct weka_req req;
	struct weka_window window;
	bool out;
};

struct work {
	struct weka_client *client;
	struct weka_attr attr;
	struct one one[DEPTH];
	uint32_t out;
	uint64_t began_ns; /* the flood */
	uint64_t read_ns;  /* of the kernel, for one */
	struct rand_state rand;
	struct bench_flood_said said;
};

/* ---- the child ------------------------------------------------------------------------------- */

static int work_begin(struct bench_flood *f, struct work *w)
{
	uint64_t window = weka_window_bytes(1, BYTES);
	struct weka_options o = { .size_bytes = sizeof(o), .pool_bytes = DEPTH * window };
	int err = bench_env_connect(f->env, 0, &o, &w->client);

	if (err)
		return err;
	err = weka_open(w->client, f->path, 0, 0, &w->attr);
	for (uint32_t i = 0; i < DEPTH && !err; i++) {
		w->one[i].window.size_bytes = window;
		err = weka_lease(w->client, window, &w->one[i].window.lease);
	}
	return err ? bench_fail("the flooder: %s", strerror(-err)) : 0;
}

/* When it will have used its part of the time that has passed, and no more. */
static uint64_t due_ns(const struct work *w)
{
	return w->began_ns + (w->said.cpu_ns + w->said.kernel_ns) * 100 / FLOOD_PERCENT;
}

static void read_one(struct work *w, struct one *one)
{
	uint64_t pieces = w->attr.size_bytes / BYTES;

	one->req.user = one;
	if (weka_submit_read(w->client, &one->req, &w->attr.handle,
			     rand_below(&w->rand, pieces) * BYTES, BYTES, &one->window))
		return; /* the appliance has not let go of its window */
	one->out = true;
	w->out++;
	w->said.kernel_ns += w->read_ns;
	if (w->said.reads++ % 2 == 0)
		return;
	weka_cancel(w->client, &one->req);
	w->said.cancelled++;
}

static void reap(struct work *w)
{
	struct weka_req *done[DEPTH];
	int count = weka_reap(w->client, done, DEPTH);

	for (int i = 0; i < count; i++) {
		((struct one *)done[i]->user)->out = false;
		w->out--;
	}
}

static void burst(struct work *w)
{
	uint64_t from_ns = clock_cpu_ns();

	while (clock_cpu_ns() - from_ns < BURST_NS) {
		reap(w);
		for (uint32_t i = 0; i < DEPTH; i++)
			if (!w->one[i].out && (!w->read_ns || due_ns(w) <= clock_now_ns()))
				read_one(w, &w->one[i]);
		weka_flush(w->client);
	}
}

/* Time that all CPUs have spent in softirqs; 0: unknown. */
static uint64_t softirq_ns(void)
{
	unsigned long long ticks = 0;
	FILE *f = fopen("/proc/stat", "re");

	if (f && fscanf(f, "cpu %*u %*u %*u %*u %*u %*u %llu", &ticks) != 1)
		ticks = 0;
	if (f)
		(void)fclose(f);
	return ticks * (NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));
}

static void weigh(struct work *w)
{
	uint64_t from_ns = softirq_ns(), until_ns = clock_now_ns() + WEIGH_NS;

	while (clock_now_ns() < until_ns)
		burst(w);
	while (w->out > 0)
		reap(w);
	w->read_ns = (softirq_ns() - from_ns) / max_u64(w->said.reads, 1);
	w->said = (struct bench_flood_said){ 0 };
}

/* Sleeps until it may continue, or the parent sends a command. */
static void sleep_it_off(const struct bench_flood *f, const struct work *w)
{
	uint64_t now_ns = clock_now_ns(), left_ns = due_ns(w) > now_ns ? due_ns(w) - now_ns : 0;
	struct pollfd p = { .fd = f->fd, .events = POLLIN };
	struct timespec t = { .tv_sec = (time_t)(left_ns / NS_PER_S),
			      .tv_nsec = (long)(left_ns % NS_PER_S) };

	if (left_ns > 0)
		(void)ppoll(&p, 1, &t, NULL);
}

static void flood(struct bench_flood *f)
{
	struct work *w = calloc(1, sizeof(*w));
	uint64_t used_ns;
	char c;

	if (!w)
		_exit(1);
	rand_seed(&w->rand, 3);
	w->said.failed = work_begin(f, w);
	if (!w->said.failed && strcmp(bench_env_transport(f->env, 0), "rdma") == 0)
		weigh(w);
	(void)!send(f->fd, "k", 1, MSG_NOSIGNAL);
	w->began_ns = clock_now_ns();
	used_ns = clock_cpu_ns();
	while (!w->said.failed && recv(f->fd, &c, 1, MSG_DONTWAIT) < 0) {
		burst(w);
		w->said.cpu_ns = clock_cpu_ns() - used_ns;
		sleep_it_off(f, w);
	}
	w->said.wall_ns = clock_now_ns() - w->began_ns;
	if (w->client)
		weka_close(w->client); /* with all that it has in flight */
	(void)!send(f->fd, &w->said, sizeof(w->said), MSG_NOSIGNAL);
	free(w);
}

static void child(struct bench_flood *f, pid_t parent)
{
	char c;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	while (recv(f->fd, &c, 1, 0) == 1)
		flood(f);
	_exit(0);
}

/* ---- the parent ----------------------------------------------------------------------------- */

int bench_flood_start(struct bench_flood **out, struct bench_env *env, const char *path)
{
	struct bench_flood *f = calloc(1, sizeof(*f));
	pid_t parent = getpid();
	int fd[2];

	*out = NULL;
	if (!f || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd)) {
		free(f);
		return bench_fail("the flooder: %s", strerror(errno));
	}
	f->env = env;
	f->path = path;
	f->pid = fork();
	if (f->pid == 0) {
		close(fd[0]);
		f->fd = fd[1];
		child(f, parent);
	}
	close(fd[1]);
	f->fd = fd[0];
	*out = f;
	return f->pid < 0 ? bench_fail("fork: %s", strerror(errno)) : 0;
}

int bench_flood_go(struct bench_flood *f)
{
	char k;

	if (send(f->fd, "g", 1, MSG_NOSIGNAL) == 1 && recv(f->fd, &k, 1, 0) == 1)
		return 0;
	return bench_fail("the flooder has ended");
}

int bench_flood_rest(struct bench_flood *f, struct bench_flood_said *out)
{
	*out = (struct bench_flood_said){ .failed = 1 };
	if (send(f->fd, "r", 1, MSG_NOSIGNAL) != 1 ||
	    recv(f->fd, out, sizeof(*out), MSG_WAITALL) != (ssize_t)sizeof(*out) || out->failed)
		return bench_fail("the flooder has ended");
	return 0;
}

void bench_flood_end(struct bench_flood *f)
{
	if (!f)
		return;
	close(f->fd);
	while (f->pid > 0 && waitpid(f->pid, NULL, 0) < 0 && errno == EINTR)
		;
	free(f);
}

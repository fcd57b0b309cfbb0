/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Peers that speak something else, lie, stop in the middle, or scribble in shared memory.
 *
 * Whatever they do: one line says what it was, their session ends, and the neighbour's goes on.
 */
#include "base/crc32c.h"
#include "base/rand.h"
#include "test/lib/fab_rig.h"
#include "fabric/client/fab_client_internal.h"
#include "fabric/hello/fab_server_internal.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define POOL_BYTES (4u << 20)

static struct fab_rig rig;

struct transport {
	char name[4];
};
static struct transport transports[] = { { "shm" }, { "tcp" } };

#define BOTH(test)                                                                                 \
	ParameterizedTestParameters(fab_hostile, test)                                             \
	{                                                                                          \
		return cr_make_param_array(struct transport, transports, 2);                       \
	}                                                                                          \
	ParameterizedTest(struct transport *t, fab_hostile, test)

/* A bare socket to the rig. */
static int dial_bare(void)
{
	struct fab_addr addr;
	char why[FAB_WHY_MAX];
	int fd;

	ASSERT(fab__addr_parse(&addr, rig.address, why) == 0);
	fd = socket(addr.sa.sa_family, SOCK_STREAM, 0);
	ASSERT(fd >= 0 && connect(fd, &addr.sa, addr.bytes) == 0);
	fab_rig_control(&rig);
	return fd;
}

static void turns(int count)
{
	for (int i = 0; i < count; i++)
		fab_rig_control(&rig);
}

/* Reads up to the end of the stream.  Sets *eof if the appliance has closed it. */
static ssize_t hear(int fd, void *out, size_t size, bool *eof)
{
	ssize_t got, all = 0;

	*eof = false;
	for (int i = 0; i < 1000 && !*eof; i++) {
		struct pollfd p = { .fd = fd, .events = POLLIN };

		fab_rig_control(&rig);
		if (poll(&p, 1, 1) != 1)
			continue;
		got = recv(fd, (char *)out + all, size - (size_t)all, 0);
		*eof = got <= 0;
		all += got > 0 ? got : 0;
	}
	return all;
}

/* The neighbour: its session must not notice anything. */
static void neighbour_is_well(void)
{
	static struct fab_call call;
	struct fab_event event;

	memset(&call, 0, sizeof(call));
	call.type = FAB_PING;
	ASSERT(fab_submit(rig.conn, &call) == 0);
	do {
		event = fab_rig_event(&rig);
	} while (event.type != FAB_EVENT_REQUEST);
	fab_reply(event.req, 0, NULL, 0);
	ASSERT(fab_rig_done(&rig, rig.conn) == &call && call.status == 0);
}

static void begin(const struct transport *t)
{
	fab_rig_serve(&rig, t->name, NULL);
	fab_rig_connect(&rig, POOL_BYTES);
	neighbour_is_well();
}

/* ---- before the hello is done ------------------------------------------------------- */

BOTH(a_web_browser_is_told_that_this_is_no_web_server)
{
	static const char http[] = "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: curl\r\n\r\n";
	struct fab_hdr_wire w;
	char heard[512] = { 0 };
	bool eof;
	int fd;

	begin(t);
	fd = dial_bare();
	cr_assert_eq(send(fd, http, sizeof(http) - 1, 0), sizeof(http) - 1);
	cr_assert_gt(hear(fd, heard, sizeof(heard) - 1, &eof), 64);
	cr_assert(eof);
	memcpy(&w, heard, sizeof(w));
	cr_assert_eq(w.type, FAB_REFUSE);
	cr_assert_eq((int32_t)le32_get(w.deadline), -EPROTO);
	cr_assert_not_null(strstr(heard + 64, "another protocol"));
	cr_assert_eq(rig.refused, 1);
	cr_assert_not_null(strstr(rig.refusal, "its first bytes are \"GET \""), "%s", rig.refusal);
	close(fd);
	neighbour_is_well();
	fab_rig_end(&rig);
}

BOTH(a_peer_that_leaves_in_the_hello_is_noted)
{
	struct fab_hello h;
	static const struct fab_limits none;
	uint8_t nonce[32] = { 0 };
	int fd;

	begin(t);
	fab__hello_client(&h, &fab_rig_key, FAB_TRANSPORT_TCP, &none, NULL, nonce, NULL);
	for (uint32_t bytes = 0; bytes < 192; bytes += 63) {
		fd = dial_bare();
		cr_assert_eq(send(fd, h.out, bytes, 0), bytes);
		close(fd);
		turns(10);
	}
	/* Told once; the others are told of when some time is over. */
	cr_assert_eq(rig.refused, 1);
	cr_assert_not_null(strstr(rig.refusal, "left in the middle"), "%s", rig.refusal);
	cr_assert_not_null(
		strstr(rig.refusal, strcmp(t->name, "tcp") == 0 ? "tcp 127.0.0.1:" : "shm user "),
		"%s", rig.refusal);
	cr_assert_leq(fab_server_control_deadline(rig.srv), rig.now_ns + 10000000000);
	rig.now_ns += 10000000000;
	turns(2);
	cr_assert_eq(rig.refused, 2);
	cr_assert_not_null(strstr(rig.refusal, "(3 times more)"), "%s", rig.refusal);
	rig.now_ns += 20000000000;
	turns(2);
	cr_assert_eq(rig.refused, 2);
	neighbour_is_well();
	fab_rig_end(&rig);
}

BOTH(a_silent_peer_is_timed_out)
{
	char heard[512];
	bool eof;
	int fd;

	begin(t);
	fd = dial_bare();
	cr_assert_eq(fab_server_control_deadline(rig.srv), rig.now_ns + 5000000000);
	rig.now_ns += 5000000001;
	turns(2);
	cr_assert_not_null(strstr(rig.refusal, "too long"), "%s", rig.refusal);
	cr_assert_eq(hear(fd, heard, sizeof(heard), &eof), 64);
	cr_assert(eof);
	rig.now_ns += 1000000001; /* it does not even hang up: so do we */
	turns(2);
	cr_assert_eq(fab_server_control_deadline(rig.srv), UINT64_MAX);
	close(fd);
	neighbour_is_well();
	fab_rig_end(&rig);
}

BOTH(a_crowd_that_only_knocks_does_not_keep_others_out_for_long)
{
	int fds[FAB_HELLOS_MAX + 8];

	begin(t);
	for (uint32_t i = 0; i < ARRAY_LEN(fds); i++)
		fds[i] = dial_bare();
	turns(100);
	neighbour_is_well();
	rig.now_ns += 5000000001;
	turns(2);
	rig.now_ns += 1000000001;
	turns(2);
	for (uint32_t i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
	turns(10);
	{
		struct fab_connect_cfg cfg = { .address = rig.address, .key = fab_rig_key };
		struct fab_conn *conn;

		cr_assert_eq(fab_rig_dial(&rig, &cfg, &conn), 0);
		fab_close(conn);
	}
	fab_rig_end(&rig);
}

/* As often as one of them is turned out he is there again. */
static void crowd_stays(int *fds, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct pollfd p = { .fd = fds[i], .events = POLLIN };

		if (poll(&p, 1, 0) == 0)
			continue;
		close(fds[i]);
		fds[i] = dial_bare();
	}
}

BOTH(a_crowd_that_never_leaves_does_not_keep_others_out)
{
	struct fab_connect_cfg cfg = { .key = fab_rig_key };
	int fds[FAB_HELLOS_MAX + 8], err = -EINPROGRESS;
	struct fab_conn *conn;
	uint64_t since;

	begin(t);
	for (uint32_t i = 0; i < ARRAY_LEN(fds); i++)
		fds[i] = dial_bare();
	turns(100);
	cfg.address = rig.address;
	since = rig.now_ns;
	cr_assert_eq(fab_connect(&conn, &cfg, rig.now_ns), 0);
	while (err == -EINPROGRESS) {
		crowd_stays(fds, ARRAY_LEN(fds));
		rig.now_ns += 50000000;
		turns(2);
		err = fab_connect_step(conn, rig.now_ns);
	}
	cr_assert_eq(err, 0, "%s", fab_conn_error(conn));
	cr_assert_lt(rig.now_ns - since, 2 * FAB_HELLO_GRACE_NS);
	cr_assert_not_null(strstr(rig.refusal, "others were waiting"), "%s", rig.refusal);
	for (uint32_t i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
	fab_close(conn);
	neighbour_is_well();
	fab_rig_end(&rig);
}

BOTH(who_is_turned_out_of_a_crowd_is_told_when_to_come_back)
{
	int fds[FAB_HELLOS_MAX + 1];
	struct fab_hdr_wire w;
	char heard[512] = { 0 };
	bool eof;

	begin(t);
	for (uint32_t i = 0; i < FAB_HELLOS_MAX; i++)
		fds[i] = dial_bare();
	turns(20);
	rig.now_ns += FAB_HELLO_GRACE_NS;
	fds[FAB_HELLOS_MAX] = dial_bare();
	turns(20);
	cr_assert_geq(hear(fds[0], heard, sizeof(heard) - 1, &eof), (ssize_t)sizeof(w));
	cr_assert(eof);
	memcpy(&w, heard, sizeof(w));
	cr_assert_eq(w.type, FAB_REFUSE);
	cr_assert_eq((int32_t)le32_get(w.deadline), -EBUSY);
	cr_assert_eq(le32_get(w.window_block), FAB_BUSY_MS);
	cr_assert_not_null(strstr(heard + sizeof(w), "try again"));
	for (uint32_t i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
	neighbour_is_well();
	fab_rig_end(&rig);
}

BOTH(a_wrong_key_gets_one_clear_line_on_both_sides)
{
	struct fab_connect_cfg cfg = { .key = fab_rig_key };
	struct fab_conn *conn;

	begin(t);
	cfg.address = rig.address;
	cfg.key.secret[31] ^= 1;
	cr_assert_eq(fab_rig_dial(&rig, &cfg, &conn), -EACCES);
	cr_assert_not_null(strstr(fab_conn_error(conn), "does not hold our key \"rig\""));
	fab_close(conn);
	turns(10);
	cr_assert_eq(rig.refused, 1);
	neighbour_is_well();
	fab_rig_end(&rig);
}

Test(fab_hostile, a_server_of_something_else_is_recognised)
{
	struct fab_addr addr;
	struct fab_connect_cfg cfg = { .key = fab_rig_key };
	char why[FAB_WHY_MAX], address[64];
	socklen_t bytes = sizeof(addr.in);
	struct fab_conn *conn;
	int fd, peer, err = -EINPROGRESS;

	cr_assert_eq(fab__addr_parse(&addr, "tcp://127.0.0.1:0", why), 0);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	cr_assert_eq(bind(fd, &addr.sa, addr.bytes), 0);
	cr_assert_eq(listen(fd, 1), 0);
	cr_assert_eq(getsockname(fd, &addr.sa, &bytes), 0);
	snprintf(address, sizeof(address), "tcp://127.0.0.1:%u", ntohs(addr.in.sin_port));
	cfg.address = address;
	cr_assert_eq(fab_connect(&conn, &cfg, 0), 0);
	peer = accept(fd, NULL, NULL);
	cr_assert_eq(send(peer, "220 mail ESMTP\r\n", 16, 0), 16);
	for (int i = 0; i < 1000 && err == -EINPROGRESS; i++)
		err = fab_connect_step(conn, 0);
	cr_assert_eq(err, -EPROTO);
	cr_assert_not_null(strstr(fab_conn_error(conn), "\"220 \""), "%s", fab_conn_error(conn));
	fab_close(conn);
	close(peer);
	close(fd);
}

Test(fab_hostile, a_silent_server_is_timed_out)
{
	struct fab_connect_cfg cfg = { .key = fab_rig_key, .hello_timeout_ns = 1000 };
	struct fab_conn *conn;

	fab_rig_serve(&rig, "tcp", NULL); /* listens, and nobody steps it */
	cfg.address = rig.address;
	cr_assert_eq(fab_connect(&conn, &cfg, 0), 0);
	cr_assert_eq(fab_connect_step(conn, 1), -EINPROGRESS);
	cr_assert_eq(fab_conn_deadline(conn), 1000);
	cr_assert_eq(fab_connect_step(conn, 1000), -ETIMEDOUT);
	fab_close(conn);
	fab_rig_end(&rig);
}

/* A connection as another user; the server accepts, or the kernel says `err`. */
static void connect_as(uid_t uid, int err)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct fab_addr addr;
		char why[FAB_WHY_MAX];
		int fd;

		if (setuid(uid) || fab__addr_parse(&addr, rig.address, why))
			_exit(2);
		fd = socket(AF_UNIX, SOCK_STREAM, 0);
		_exit(connect(fd, &addr.sa, addr.bytes) ? errno == err ? 0 : 3 : err ? 4 : 0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0, "%d", WEXITSTATUS(status));
	turns(5);
}

Test(fab_hostile, another_user_does_not_reach_a_socket_over_shm)
{
	struct transport shm = { "shm" };
	struct stat st;

	if (geteuid() != 0)
		cr_skip_test("needs to become another user");
	begin(&shm);
	cr_assert_eq(stat(rig.address + 4, &st), 0);
	cr_assert_eq(st.st_mode & 0777, 0600);
	connect_as(65534, EACCES);
	fab_rig_end(&rig);
}

Test(fab_hostile, users_that_are_not_named_are_refused_over_shm)
{
	struct fab_server_cfg cfg = {
		.key = fab_rig_key,
		.shm_mode = 0666,
		.shm_user = { 65533 },
		.shm_user_count = 1,
	};

	if (geteuid() != 0)
		cr_skip_test("needs to become another user");
	fab_rig_serve(&rig, "shm", &cfg);
	fab_rig_connect(&rig, POOL_BYTES);
	connect_as(65534, 0);
	cr_assert_eq(rig.refused, 1);
	cr_assert_not_null(strstr(rig.refusal, "runs as user 65534"), "%s", rig.refusal);
	connect_as(65533, 0);
	cr_assert_null(strstr(rig.refusal, "65533, which"), "%s", rig.refusal);
	neighbour_is_well();
	fab_rig_end(&rig);
}

/* Listens on `path` as user 65534, in a process of its own. */
static pid_t stranger_listens(const char *path)
{
	int ready[2];
	pid_t pid;
	char byte;

	cr_assert_eq(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		struct sockaddr_un un = { .sun_family = AF_UNIX };
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);

		snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
		if (setuid(65534) || bind(fd, (struct sockaddr *)&un, sizeof(un)) ||
		    listen(fd, 8) || write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	cr_assert_eq(read(ready[0], &byte, 1), 1, "nobody listens on %s", path);
	close(ready[0]);
	return pid;
}

/* A client with a key that everybody has connects to a stranger in a directory of the stranger's,
 * of this name. */
static void expect_stranger_of(const char *template, int want, const char *link, const char *id)
{
	struct fab_connect_cfg cfg = { 0 };
	char dir[64], path[80], address[90];
	int err = -EINPROGRESS;
	struct fab_conn *conn;
	pid_t pid;

	snprintf(cfg.key.id, sizeof(cfg.key.id), "%s", id);
	snprintf(dir, sizeof(dir), "%s", template);
	cr_assert_not_null(mkdtemp(dir));
	cr_assert_eq(chown(dir, 65534, 65534), 0);
	snprintf(path, sizeof(path), "%s/sock", dir);
	pid = stranger_listens(path);
	cr_assert(!link || symlink(dir, link) == 0);
	snprintf(address, sizeof(address), "shm:%s/sock", link ? link : dir);
	cfg.address = address;
	cr_assert_eq(fab_connect(&conn, &cfg, 0), 0);
	for (int i = 0; i < 10 && err == -EINPROGRESS; i++)
		err = fab_connect_step(conn, 1);
	fab_close(conn);
	kill(pid, SIGKILL);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	cr_assert(!link || unlink(link) == 0);
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(rmdir(dir), 0);
	cr_assert_eq(err, want, "%s", address);
}

static void expect_stranger(const char *template, int want, const char *link)
{
	expect_stranger_of(template, want, link, FAB_KEY_ANONYMOUS);
	expect_stranger_of(template, want, link, FAB_KEY_ROOT);
}

Test(fab_hostile, owner_of_a_directory_that_anybody_may_have_made_is_not_trusted)
{
	char link[64];

	if (geteuid() != 0)
		cr_skip_test("needs to become another user");
	snprintf(link, sizeof(link), "/tmp/weka-link-%d", getpid());
	expect_stranger("/run/weka-XXXXXX", -EINPROGRESS, NULL); /* waits for its hello */
	expect_stranger("/tmp/weka-XXXXXX", -EACCES, NULL);
	expect_stranger("/run/weka-XXXXXX", -EACCES, link);
}

/* Another user of the directory puts a symlink in the place of the socket as soon as it is there;
 * or the kernel has no room for a listener. */
static const char *swapped_for;
static bool listen_fails;

int bind(int fd, const struct sockaddr *sa, socklen_t bytes)
{
	const struct sockaddr_un *un = (const struct sockaddr_un *)(const void *)sa;
	int err = (int)syscall(SYS_bind, fd, sa, bytes);

	if (err == 0 && swapped_for) {
		ASSERT(unlink(un->sun_path) == 0);
		ASSERT(symlink(swapped_for, un->sun_path) == 0);
	}
	return err;
}

int listen(int fd, int backlog)
{
	if (!listen_fails)
		return (int)syscall(SYS_listen, fd, backlog);
	errno = EADDRINUSE;
	return -1;
}

Test(fab_hostile, a_symlink_in_the_place_of_the_socket_is_not_followed)
{
	struct fab_server_cfg cfg = { .key = fab_rig_key, .shm_mode = 0666 };
	char file[] = "/tmp/weka-other-XXXXXX", address[100], why[FAB_WHY_MAX];
	int fd = mkstemp(file);
	struct stat st;

	cr_assert_geq(fd, 0);
	fab_rig_serve(&rig, "tcp", &cfg);
	snprintf(address, sizeof(address), "shm:%s.sock", file);
	swapped_for = file;
	cr_assert_lt(fab_server_listen(rig.srv, address, why), 0);
	swapped_for = NULL;
	cr_assert_eq(fstat(fd, &st), 0);
	cr_assert_eq(st.st_mode & 0777, 0600);
	cr_assert_eq(lstat(address + 4, &st), 0, "what another user put there stays");
	cr_assert_eq(unlink(address + 4), 0);
	cr_assert_eq(unlink(file), 0);
	close(fd);
	fab_rig_end(&rig);
}

Test(fab_hostile, a_listener_that_fails_leaves_no_socket_behind)
{
	char address[100], why[FAB_WHY_MAX];
	struct stat st;

	fab_rig_serve(&rig, "tcp", NULL);
	snprintf(address, sizeof(address), "shm:/tmp/weka-fails-%d.sock", getpid());
	listen_fails = true;
	cr_assert_eq(fab_server_listen(rig.srv, address, why), -EADDRINUSE);
	listen_fails = false;
	cr_assert_eq(lstat(address + 4, &st), -1);
	fab_rig_end(&rig);
}

Test(fab_hostile, what_is_no_address_is_not_served)
{
	char why[FAB_WHY_MAX];

	fab_rig_serve(&rig, "tcp", NULL);
	cr_assert_eq(fab_server_listen(rig.srv, "tcp://127.0.0.1:70000", why), -EINVAL);
	cr_assert_eq(fab_server_listen(rig.srv, "tcp://127.0.0.1", why), -EINVAL);
	cr_assert_eq(fab_server_listen(rig.srv, "http://127.0.0.1:80", why), -EINVAL);
	cr_assert_eq(fab_server_listen(rig.srv, "shm:relative", why), -EINVAL);
	cr_assert_eq(fab_server_listen(rig.srv, rig.address, why), -EADDRINUSE);
	cr_assert_eq(fab_server_listen(rig.srv, "tcp://192.0.2.1:0", why), -EADDRNOTAVAIL);
	cr_assert_not_null(strstr(why, "tcp://192.0.2.1:0"), "%s", why);
	fab_rig_end(&rig);
}

/* ---- scribbling in shared memory ---------------------------------------------------- */

/* The hostile client's view of its rings. */
static struct fab_conn *shm_dial(void)
{
	struct fab_connect_cfg cfg = { .key = fab_rig_key,
				       .want.credits = 8,
				       .want.long_bodies = 2 };
	struct fab_conn *conn;

	cfg.address = rig.address;
	ASSERT(fab_rig_dial(&rig, &cfg, &conn) == 0);
	return conn;
}

Test(fab_hostile, garbage_in_the_ring_costs_only_its_own_session)
{
	struct transport shm = { "shm" };
	struct rand_state rand;

	rand_seed(&rand, 3);
	begin(&shm);
	for (int round = 0; round < 200; round++) {
		struct fab_conn *conn = shm_dial();
		struct fab_ring *ring = &conn->shm.out;
		bool closed = false;

		for (int i = 0; i < 12; i++) {
			uint8_t *slot = ring->slots + rand_below(&rand, 32) * FAB_SLOT_BYTES;
			struct fab_hdr_wire w;

			fab__hdr_build(&w, (uint8_t)rand_below(&rand, 40), rand_u64(&rand));
			w.body_bytes = le32_of((uint32_t)rand_below(&rand, 300000));
			w.body.slot = le32_of((uint32_t)rand_below(&rand, 4));
			if (rand_below(&rand, 2))
				w.magic = le32_of((uint32_t)rand_u64(&rand));
			w.check = le32_of((uint32_t)rand_below(&rand, 3));
			memcpy(slot, &w, sizeof(w));
			for (uint32_t k = 64; k < FAB_SLOT_BYTES; k++)
				slot[k] = (uint8_t)rand_u64(&rand);
		}
		memset(conn->shm.memory, 0xff, 128); /* the bells, too */
		for (int i = 0; i < 20; i++) {
			struct fab_event events[4];
			uint32_t n = fab_server_poll(rig.srv, rig.now_ns, events, 4);

			for (uint32_t k = 0; k < n; k++) {
				if (events[k].type == FAB_EVENT_REQUEST)
					fab_reply(events[k].req, 0, NULL, 0);
				closed |= events[k].type == FAB_EVENT_SESSION_CLOSED;
			}
			fab_rig_control(&rig);
		}
		fab_close(conn);
		for (int i = 0; i < 20 && !closed; i++) {
			struct fab_event event;

			fab_rig_control(&rig);
			if (fab_server_poll(rig.srv, rig.now_ns, &event, 1))
				closed = event.type == FAB_EVENT_SESSION_CLOSED;
		}
		cr_assert(closed);
		fab_rig_control(&rig);
		neighbour_is_well();
	}
	fab_rig_end(&rig);
}

Test(fab_hostile, what_was_checked_cannot_be_changed_afterwards)
{
	enum { COUNT = 40 };
	static char text[COUNT][64];
	static struct fab_name names[COUNT];
	struct transport shm = { "shm" };
	struct fab_call call = { .type = FAB_STAT, .window_bytes = 64 << 10 };
	struct fab_conn *conn;
	struct fab_req *req;

	begin(&shm);
	conn = shm_dial();
	for (int i = 0; i < COUNT; i++) {
		memset(text[i], 'a' + i % 26, 60);
		names[i] =
			(struct fab_name){ .by = FAB_BY_PATH, .name = text[i], .name_bytes = 60 };
	}
	call.args.batch.count = COUNT;
	call.args.batch.names = names;
	call.region = fab_rig_pool(&rig, conn, 1);
	cr_assert_eq(fab_submit(conn, &call), 0);
	req = fab_rig_request(&rig);
	memset((uint8_t *)conn->shm.memory + 4096, 0xff, conn->shm.memory_bytes - 4096);
	for (uint32_t i = 0; i < COUNT; i++) {
		struct fab_name name;

		fab_req_name(req, i, &name);
		cr_assert_eq(name.name_bytes, 60);
		cr_assert_eq(memcmp(name.name, text[i], 60), 0);
	}
	fab_reply(req, -ENOENT, NULL, 0);
	fab_close(conn);
	cr_assert_eq(fab_rig_event(&rig).type, FAB_EVENT_SESSION_CLOSED);
	fab_rig_control(&rig);
	neighbour_is_well();
	fab_rig_end(&rig);
}

/*
 * A client does all it can to its doorbells: it makes them block, fills them, never reads them, and
 * pretends to be asleep each time.  The appliance, which rings, never waits for it.
 */
Test(fab_hostile, a_doorbell_that_is_full_does_not_hold_up_the_core, .timeout = 20)
{
	const uint64_t most = UINT64_MAX - 1;
	struct transport shm = { "shm" };
	struct pollfd p = { .events = POLLIN };
	static char junk[1 << 16];
	ssize_t got;

	begin(&shm);
	memset(junk, 1, sizeof(junk));
	for (int i = 0; i < 2; i++) {
		int fd = rig.conn->doorbells[i], flags = fcntl(fd, F_GETFL);

		cr_assert_eq(fcntl(fd, F_SETFL, flags | O_NONBLOCK), 0);
		signal(SIGPIPE, SIG_IGN);
		(void)!write(fd, &most, sizeof(most));
		while (write(fd, junk, sizeof(junk)) > 0)
			;
		cr_assert_eq(fcntl(fd, F_SETFL, flags & ~O_NONBLOCK), 0);
	}
	for (int i = 0; i < 3000; i++) {
		atomic_store(rig.conn->shm.in.bell, 1);
		neighbour_is_well();
	}
	cr_assert_eq(fcntl(rig.conn->doorbells[1], F_SETFL, O_NONBLOCK), 0);
	do
		got = read(rig.conn->doorbells[1], junk, sizeof(junk));
	while (got > 0);
	p.fd = rig.conn->doorbells[1];
	cr_assert_eq(poll(&p, 1, 0), 0);
	atomic_store(rig.conn->shm.in.bell, 1);
	neighbour_is_well();
	cr_assert_eq(poll(&p, 1, 0), 1, "who is asleep and has read its bell is woken again");
	fab_rig_end(&rig);
}

static uint32_t descriptors(void)
{
	uint32_t count = 0;

	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* Turns until that session is gone; what it asks meanwhile is answered. */
static bool session_ends(const struct fab_session *session)
{
	for (int i = 0; i < 100; i++) {
		struct fab_event events[4];
		uint32_t n = fab_server_poll(rig.srv, rig.now_ns, events, 4);

		for (uint32_t k = 0; k < n; k++) {
			if (events[k].type == FAB_EVENT_REQUEST)
				fab_reply(events[k].req, 0, NULL, 0);
			if (events[k].type == FAB_EVENT_SESSION_CLOSED)
				return events[k].session == session;
		}
		fab_rig_control(&rig);
	}
	return false;
}

/* A client that cannot be woken any more has ended its session, and nothing else: no signal comes
 * of it, and no descriptor stays. */
Test(fab_hostile, a_doorbell_that_is_closed_ends_its_own_session, .timeout = 20)
{
	static struct fab_call call;
	struct transport shm = { "shm" };
	uint32_t before;

	signal(SIGPIPE, SIG_DFL);
	begin(&shm);
	before = descriptors();
	for (int how = 0; how < 3; how++) {
		struct fab_conn *conn = shm_dial();
		struct fab_req *req;

		memset(&call, 0, sizeof(call));
		call.type = FAB_PING;
		cr_assert_eq(fab_submit(conn, &call), 0);
		fab_flush(conn);
		req = fab_rig_request(&rig);
		if (how == 0) {
			close(conn->doorbells[1]);
			conn->doorbells[1] = -1;
		} else {
			cr_assert_eq(shutdown(conn->doorbells[1], how == 1 ? SHUT_RD : SHUT_RDWR),
				     0);
		}
		atomic_store(conn->shm.in.bell, 1);
		fab_reply(req, 0, NULL, 0);
		cr_assert(session_ends(req->session), "%d", how);
		turns(3);
		fab_close(conn);
		fab_rig_idle(&rig);
		turns(3);
		cr_assert_eq(descriptors(), before, "%d: %u instead of %u", how, descriptors(),
			     before);
		neighbour_is_well();
	}
	fab_rig_end(&rig);
}

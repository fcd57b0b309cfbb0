/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#define _GNU_SOURCE
/* Pools of the caller's memory: leases from them, reconnects, and memory that is refused. */
#include "test/lib/script_server.h"

#include "base/num.h"
#include "client-lib/client_internal.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZE = 10000, POOL = 2 * WEKA_POOL_UNIT };

static struct script server;
static struct weka_client *client;
static struct weka_pool *pool;
static struct weka_options options;
static struct weka_key key;

static void set_up(void)
{
	script_init(&server);
	script_add(&server, "a", SIZE);
	server.cfg.limits.pool_max_bytes = 16 << 20;
	key = (struct weka_key){ .secret = server.cfg.key.secret };
	options = (struct weka_options){ .size_bytes = sizeof(options), .pool_bytes = 4 << 20 };
}

static void tear_down(void)
{
	weka_close(client);
	client = NULL;
	script_destroy(&server);
}

TestSuite(weka_pool, .init = set_up, .fini = tear_down, .timeout = 60);

static void start(const char *transport)
{
	script_start(&server, transport);
	cr_assert_eq(weka_connect(server.address, &key, &options, &client), 0, "%s",
		     weka_error(NULL));
}

static int memfd(uint64_t size, unsigned flags)
{
	int fd = memfd_create("test", flags);

	cr_assert_geq(fd, 0);
	cr_assert_eq(ftruncate(fd, (off_t)size), 0);
	return fd;
}

static struct weka_memory host(uint64_t size)
{
	struct weka_memory m = { .kind = WEKA_MEMORY_HOST, .size_bytes = size };

	m.data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(m.data, MAP_FAILED);
	return m;
}

static void add(const struct weka_memory *memory)
{
	cr_assert_eq(weka_pool_add(client, memory, &pool), 0, "%s", weka_error(client));
}

/* Reads the file into a lease of the pool, which is where `within` begins. */
static void read_into_pool(const char *within)
{
	struct weka_read_item item = { .ref = weka_ref_path("a"), .length_bytes = WEKA_TO_END };
	struct weka_window window = { .size_bytes = weka_window_bytes(1, SIZE) };
	struct weka_req req = { 0 }, *done;

	cr_assert_eq(weka_pool_lease(client, pool, window.size_bytes, &window.lease), 0, "%s",
		     weka_error(client));
	cr_assert_eq(weka_submit_read_batch(client, &req, &item, 1, &window), 0, "%s",
		     weka_error(client));
	while (weka_reap(client, &done, 1) == 0)
		cr_assert_eq(weka_wait(client, WEKA_FOREVER), 0);
	cr_assert_eq(req.status, 0);
	cr_assert_eq(item.status, 0);
	cr_assert_eq(item.got_bytes, SIZE);
	cr_assert(!within ||
		  ((const char *)item.data >= within && (const char *)item.data < within + POOL));
	for (uint32_t i = 0; i < SIZE; i++)
		cr_assert_eq(((const unsigned char *)item.data)[i], script_byte("a", i));
	cr_assert_eq(weka_release(client, window.lease), 0);
}

static uint64_t used_bytes(void)
{
	struct weka_counters now = { .size_bytes = sizeof(now) };

	cr_assert_eq(weka_get_counters(client, &now), 0);
	return now.pool_used_bytes;
}

/* ---- memory that is taken ----------------------------------------------------------------- */

Test(weka_pool, a_memfd_is_a_pool_over_shm)
{
	struct weka_memory m = { .kind = WEKA_MEMORY_FD, .size_bytes = POOL };

	start("shm");
	m.fd = memfd(POOL, MFD_ALLOW_SEALING);
	add(&m);
	cr_assert_eq(fcntl(m.fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW);
	close(m.fd);
	for (int i = 0; i < 10; i++)
		read_into_pool(NULL);
	cr_assert_eq(used_bytes(), 0);
}

Test(weka_pool, the_callers_own_mapping_is_used)
{
	struct weka_memory m = { .kind = WEKA_MEMORY_FD, .size_bytes = POOL };

	start("shm");
	m.fd = memfd(POOL, MFD_ALLOW_SEALING);
	m.data = mmap(NULL, POOL, PROT_READ | PROT_WRITE, MAP_SHARED, m.fd, 0);
	cr_assert_neq(m.data, MAP_FAILED);
	add(&m);
	read_into_pool(m.data);
	weka_close(client);
	client = NULL;
	cr_assert_eq(*(unsigned char *)m.data, script_byte("a", 0)); /* still the caller's */
	munmap(m.data, POOL);
	close(m.fd);
}

Test(weka_pool, any_memory_is_a_pool_over_tcp)
{
	struct weka_memory m = host(POOL);

	options.lanes = 3;
	start("tcp");
	add(&m);
	for (int i = 0; i < 10; i++)
		read_into_pool(m.data);
	cr_assert_eq(used_bytes(), 0);
}

Test(weka_pool, a_memfd_is_one_over_tcp_too)
{
	struct weka_memory m = { .kind = WEKA_MEMORY_FD, .size_bytes = POOL };

	start("tcp");
	m.fd = memfd(POOL, MFD_ALLOW_SEALING);
	add(&m);
	read_into_pool(NULL);
	cr_assert_eq(used_bytes(), 0);
	close(m.fd);
}

Test(weka_pool, leases_are_cut_until_the_pool_is_empty)
{
	struct weka_memory m = { .kind = WEKA_MEMORY_FD, .size_bytes = POOL };
	struct weka_lease *lease[3];

	start("shm");
	m.fd = memfd(POOL, MFD_ALLOW_SEALING);
	add(&m);
	cr_assert_eq(weka_pool_lease(client, pool, POOL + 1, &lease[0]), -EMSGSIZE);
	cr_assert_eq(weka_pool_lease(client, pool, POOL / 2, &lease[0]), 0);
	cr_assert_eq(weka_pool_lease(client, pool, POOL / 2, &lease[1]), 0);
	cr_assert_eq(weka_pool_lease(client, pool, 1, &lease[2]), -EAGAIN);
	cr_assert_eq(weka_lease(client, 4096, &lease[2]), 0); /* the library's own has room */
	for (int i = 0; i < 3; i++)
		cr_assert_eq(weka_release(client, lease[i]), 0);
	cr_assert_eq(weka_pool_lease(client, pool, POOL, &lease[0]), 0);
	close(m.fd);
}

static void after_a_restart(const char *transport)
{
	struct weka_memory m = { .kind = WEKA_MEMORY_FD, .size_bytes = POOL };
	struct weka_lease *held;

	start(transport);
	m.fd = memfd(POOL, MFD_ALLOW_SEALING);
	add(&m);
	read_into_pool(NULL);
	cr_assert_eq(weka_pool_lease(client, pool, 4096, &held), 0);
	memset(held->data, 'x', 4096);
	for (int i = 0; i < 3; i++) {
		script_stop(&server);
		script_restart(&server);
		read_into_pool(NULL);
		cr_assert_eq(((char *)held->data)[4095], 'x');
	}
	cr_assert_eq(weka_release(client, held), 0);
	close(m.fd);
}

Test(weka_pool, the_next_session_over_shm_knows_it)
{
	after_a_restart("shm");
}

Test(weka_pool, the_next_session_over_tcp_knows_it)
{
	options.lanes = 2;
	after_a_restart("tcp");
}

/* ---- memory that is refused ---------------------------------------------------------------- */

static void refused(const struct weka_memory *memory, int err, const char *why)
{
	struct weka_lease *lease;

	cr_assert_eq(weka_pool_add(client, memory, &pool), err, "%s", weka_error(client));
	cr_assert(strstr(weka_error(client), why), "%s", weka_error(client));
	cr_assert_eq(weka_lease(client, 4096, &lease), 0); /* the client goes on */
	cr_assert_eq(weka_release(client, lease), 0);
}

static void refused_fd(int fd, uint64_t size, int err, const char *why)
{
	const struct weka_memory m = { .kind = WEKA_MEMORY_FD, .fd = fd, .size_bytes = size };

	refused(&m, err, why);
	close(fd);
}

Test(weka_pool, descriptors_that_are_no_sealed_memfd)
{
	char path[] = "/tmp/weka_pool_XXXXXX", own[64];
	int fd = mkstemp(path);

	start("shm");
	cr_assert_eq(ftruncate(fd, POOL), 0);
	refused_fd(fd, POOL, -EINVAL, "no memfd");
	unlink(path);
	refused_fd(memfd(POOL / 2, MFD_ALLOW_SEALING), POOL, -EINVAL, "another size");
	refused_fd(memfd(POOL, 0), POOL, -EINVAL, "MFD_ALLOW_SEALING");
	refused_fd(memfd(POOL, MFD_ALLOW_SEALING | MFD_HUGETLB), POOL, -EINVAL, "ordinary pages");
	fd = memfd(POOL, MFD_ALLOW_SEALING);
	snprintf(own, sizeof(own), "/proc/self/fd/%d", fd);
	refused_fd(open(own, O_RDONLY), POOL, -EINVAL, "reading and writing");
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
	refused_fd(fd, POOL, -EPERM, "Operation not permitted");
	refused_fd(-1, POOL, -EBADF, "not open");
}

Test(weka_pool, arguments_that_cannot_be)
{
	struct weka_memory m = host(POOL), bad = m;
	struct weka_lease *lease;

	start("tcp");
	bad.size_bytes = POOL - 4096;
	refused(&bad, -EINVAL, "multiple of 2 MiB");
	bad.size_bytes = 0;
	refused(&bad, -EINVAL, "multiple of 2 MiB");
	bad = m;
	bad.data = (char *)m.data + 512;
	refused(&bad, -EINVAL, "multiple of 4096");
	bad.data = NULL;
	refused(&bad, -EINVAL, "data is NULL");
	bad = m;
	bad.kind = 7;
	refused(&bad, -EINVAL, "kind");
	bad = m;
	bad.reserved[3] = 1;
	refused(&bad, -EINVAL, "reserved");
	bad = m;
	bad.kind = WEKA_MEMORY_DMABUF;
	refused(&bad, -EOPNOTSUPP, "dmabuf");
	munmap((char *)m.data + POOL / 2, POOL / 2);
	refused(&m, -EINVAL, "can be written to");
	cr_assert_eq(weka_pool_add(client, NULL, &pool), -EINVAL);
	cr_assert_eq(weka_pool_add(client, &m, NULL), -EINVAL);
	cr_assert_eq(weka_pool_add(NULL, &m, &pool), -EINVAL);
	cr_assert_eq(weka_pool_lease(client, (struct weka_pool *)client, 1, &lease), -EINVAL);
	cr_assert_eq(weka_pool_lease(client, NULL, 1, &lease), -EINVAL);
}

Test(weka_pool, ordinary_memory_over_shm)
{
	struct weka_memory m = host(POOL);

	start("shm");
	refused(&m, -EOPNOTSUPP, "memfd");
}

Test(weka_pool, more_than_the_appliance_grants)
{
	struct weka_memory m = { .kind = WEKA_MEMORY_FD, .size_bytes = 32 << 20 };

	start("shm");
	m.fd = memfd(m.size_bytes, MFD_ALLOW_SEALING);
	refused(&m, -ENOSPC, "session_pools_max");
	close(m.fd);
	m.fd = memfd(POOL, MFD_ALLOW_SEALING);
	m.size_bytes = POOL;
	add(&m); /* a smaller one is taken after that */
	read_into_pool(NULL);
	close(m.fd);
}

Test(weka_pool, more_pools_than_a_client_may_have)
{
	struct weka_memory m = host(WEKA_POOL_UNIT * 8ull);

	server.cfg.limits.pool_max_bytes = 64 << 20;
	start("tcp");
	m.size_bytes = WEKA_POOL_UNIT;
	for (uint32_t i = 0; i < CLIENT_ADDED_MAX; i++, m.data = (char *)m.data + WEKA_POOL_UNIT)
		add(&m);
	refused(&m, -ENOSPC, "at most 7 pools");
}

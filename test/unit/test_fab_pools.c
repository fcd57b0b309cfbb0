/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Pools of a client's own memory over shm: what the appliance takes, and what it does not. */
#define _GNU_SOURCE
#include "test/lib/fab_rig.h"

#include "base/num.h"
#include "fabric/client/fab_client_internal.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { POOL = 2 << 20, SEALS = F_SEAL_SHRINK | F_SEAL_GROW };

static struct fab_rig rig;

static void begin(void)
{
	fab_rig_serve(&rig, "shm", NULL);
	fab_rig_connect(&rig, 0);
}

static void end(void)
{
	fab_rig_end(&rig);
}

TestSuite(fab_pools, .init = begin, .fini = end, .timeout = 60);

static int memfd(uint64_t size, int seals, unsigned flags)
{
	int fd = memfd_create("test", MFD_ALLOW_SEALING | flags);

	cr_assert_geq(fd, 0);
	cr_assert_eq(ftruncate(fd, (off_t)size), 0);
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static uint32_t fds_open(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint32_t count = 0;

	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static int answer(struct fab_region *region)
{
	struct fab_event event;
	struct fab_call *done;

	for (int i = 0; i < 100000 && fab_region_status(region) == -EINPROGRESS; i++) {
		fab_rig_control(&rig);
		if (fab_server_poll(rig.srv, rig.now_ns, &event, 1))
			cr_assert_eq(event.type, FAB_EVENT_SESSION_NEW);
		cr_assert_eq(fab_poll(rig.conn, rig.now_ns, &done, 1), 0);
	}
	return fab_region_status(region);
}

/* The appliance's answer to an offer of `fd`, whose descriptor is closed after it. */
static int offer(int fd, uint64_t size)
{
	static char memory[4096];
	struct fab_region *region;

	cr_assert_geq(fd, 0);
	/* The client's end does not look at the memory before a request names it. */
	cr_assert_eq(fab_pool_lend(rig.conn, memory, size, fd, &region), 0);
	close(fd);
	return answer(region);
}

Test(fab_pools, a_sealed_memfd_is_mapped_by_both)
{
	int fd = memfd(POOL, SEALS, 0);
	char *memory = mmap(NULL, POOL, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct fab_call call = { .type = FAB_STATUS, .window_offset = 4096, .window_bytes = 8192 };
	struct fab_piece piece = { .bytes = (uint8_t[4]){ 1, 2, 3, 4 }, .length_bytes = 4 };
	const uint32_t before = fds_open();
	struct fab_req *req;
	uint64_t iova;

	cr_assert_eq(fab_pool_lend(rig.conn, memory, POOL, fd, &call.region), 0);
	cr_assert_eq(answer(call.region), 0);
	cr_assert_eq(rig.pools_added, 1);
	cr_assert_eq(fds_open(), before); /* the appliance keeps none */
	cr_assert_eq(fab_region_memory(call.region), memory);
	cr_assert_eq(fab_submit(rig.conn, &call), 0);
	req = fab_rig_request(&rig);
	memcpy(fab_window_addr(req, 100, 6, &iova), "drive", 6);
	cr_assert_eq(iova, FAB_RIG_IOVA + 4096 + 100);
	cr_assert_eq(fab_send_part(req, &piece), 1);
	fab_reply(req, 0, (uint8_t[8]){ 4 }, 8);
	cr_assert_eq(fab_rig_done(&rig, rig.conn), &call);
	cr_assert_str_eq(memory + 4096 + 100, "drive");
	cr_assert_eq(memcmp(memory + 4096, piece.bytes, 4), 0);
	close(fd);
}

Test(fab_pools, what_could_harm_the_appliance_is_refused)
{
	const uint32_t before = fds_open();
	char path[] = "/tmp/fab_pools_XXXXXX", own[64];
	int fd = mkstemp(path);

	unlink(path);
	cr_assert_eq(ftruncate(fd, POOL), 0);
	cr_assert_eq(offer(fd, POOL), -EINVAL); /* may be truncated, or its disk fail */
	cr_assert_eq(offer(memfd(POOL, 0, 0), POOL), -EINVAL);
	cr_assert_eq(offer(memfd(POOL, F_SEAL_GROW, 0), POOL), -EINVAL);
	cr_assert_eq(offer(memfd(POOL, F_SEAL_SHRINK, 0), POOL), -EINVAL);
	cr_assert_eq(offer(memfd(4096, SEALS, 0), POOL), -EINVAL);
	cr_assert_eq(offer(memfd(2 * POOL, SEALS, 0), POOL), -EINVAL);
	cr_assert_eq(offer(memfd(POOL, SEALS, MFD_HUGETLB), POOL), -EINVAL);
	cr_assert_eq(offer(memfd(POOL, SEALS | F_SEAL_WRITE, 0), POOL), -EPERM);
	cr_assert_eq(offer(open("/dev/null", O_RDWR), POOL), -EINVAL);
	fd = memfd(POOL, SEALS, 0);
	snprintf(own, sizeof(own), "/proc/self/fd/%d", fd);
	cr_assert_eq(offer(open(own, O_RDONLY), POOL), -EACCES);
	cr_assert_eq(offer(fd, POOL), 0); /* the session goes on */
	cr_assert_eq(rig.pools_added, 1);
	cr_assert_eq(fds_open(), before);
}

Test(fab_pools, more_than_is_granted_is_refused)
{
	const uint64_t most = fab_conn_limits(rig.conn)->pool_max_bytes;

	cr_assert_eq(offer(memfd(most, SEALS, 0), most), 0);
	rig.conn->limits.pool_max_bytes *= 2; /* a client that does not count */
	cr_assert_eq(offer(memfd(POOL, SEALS, 0), POOL), -ENOSPC);
}

Test(fab_pools, a_size_that_is_no_multiple_is_refused)
{
	struct fab_pool_wire body = { .size_bytes = le64_of(4096) };
	int fd = memfd(4096, SEALS, 0);
	struct fab_hdr_wire w;
	ssize_t got = -EAGAIN;
	uint32_t fd_count;
	int back;

	fab__hdr_build(&w, FAB_POOL_ADD, 0);
	w.window_region = le16_of(1);
	w.body_bytes = le32_of(sizeof(body));
	memcpy(w.small, &body, sizeof(body));
	w.check = le32_of(fab__hdr_check(&w));
	cr_assert_eq(fab__send_fds(rig.conn->fd, &w, sizeof(w), &fd, 1), sizeof(w));
	for (int i = 0; i < 100000 && got == -EAGAIN; i++) {
		fab_rig_control(&rig);
		got = fab__recv_fds(rig.conn->fd, &w, sizeof(w), &back, 1, &fd_count);
	}
	cr_assert_eq(got, sizeof(w));
	cr_assert_eq((int32_t)le32_get(w.deadline), -EINVAL);
	cr_assert_eq(fd_count, 0);
	close(fd);
}

/* A client that sends descriptors with each byte, and goes away in the middle. */
Test(fab_pools, descriptors_that_are_not_wanted_are_closed)
{
	struct fab_connect_cfg cfg = { .address = rig.address, .key = fab_rig_key };
	const uint32_t before = fds_open();
	struct fab_conn *conn;
	int fds[3];

	for (int i = 0; i < 3; i++)
		fds[i] = memfd(POOL, SEALS, 0);
	cr_assert_eq(fab_rig_dial(&rig, &cfg, &conn), 0);
	for (int i = 0; i < 5; i++) {
		cr_assert_eq(fab__send_fds(conn->fd, "x", 1, fds, 3), 1);
		fab_rig_control(&rig);
	}
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	fab_close(conn);
	cr_assert_eq(fab_rig_event(&rig).type, FAB_EVENT_SESSION_CLOSED);
	for (int i = 0; i < 10; i++)
		fab_rig_idle(&rig);
	cr_assert_eq(fds_open(), before);
}

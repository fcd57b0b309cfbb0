/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Whole files that are put in pieces, while sessions break. */
#define _GNU_SOURCE
#include "client-lib/client_internal.h"
#include "client-lib/weka_sync.h"
#include "fabric/client/fab_client_internal.h"
#include "test/lib/app_rig.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BYTES = 24 << 20, PUTS_MAX = 2000, CUTS = 4 };

static struct app_rig rig = { .cfg = { .boot = APP_BOOT_FORMAT,
				       .ndrives = 2,
				       .cache_bytes = 16 << 20,
				       .staging_bytes = 24 << 20,
				       .ops_max = 32 } };
static struct weka_client *client;
static bool cut_once; /* in this put */
static uint32_t cuts;

struct way {
	char transport[8];
};
static struct way ways[] = { { "shm" }, { "tcp" } };

TestSuite(weka_put, .timeout = 120);

/* Cuts the link in the middle of a put, once. */
static int cut(void *user)
{
	(void)user;
	if (cut_once && client->lanes[0].at == CLIENT_UP) {
		shutdown(client->lanes[0].conn->fd, SHUT_RDWR);
		cut_once = false;
		cuts++;
	}
	return 0;
}

static void same(const uint8_t *bytes)
{
	size_t size;
	void *got;

	cr_assert_eq(weka_read_file(client, "/f", &got, &size), 0, "%s", weka_error(client));
	cr_assert_eq(size, BYTES);
	cr_assert_eq(memcmp(got, bytes, BYTES), 0);
	free(got);
}

ParameterizedTestParameters(weka_put, it_begins_again_when_its_session_has_ended)
{
	return cr_make_param_array(struct way, ways, 2);
}
ParameterizedTest(struct way *way, weka_put, it_begins_again_when_its_session_has_ended)
{
	const int fd = memfd_create("f", 0);
	struct weka_ref ref = weka_ref_path("/f");
	uint8_t *bytes = malloc(BYTES);
	uint32_t puts = 0;

	client = app_rig_begin_over(&rig, way->transport);
	cr_assert_eq(weka_set_pause(client, cut, NULL), 0);
	for (; cuts < CUTS && puts < PUTS_MAX; puts++) {
		cut_once = true; /* a put that ends before the first pause does not count */
		memset(bytes, (int)puts, BYTES);
		cr_assert_eq(pwrite(fd, bytes, BYTES, 0), BYTES);
		if (puts % 2)
			cr_assert_eq(weka_put_fd(client, &ref, fd, BYTES, NULL), 0, "%s",
				     weka_error(client));
		else
			cr_assert_eq(weka_write_file(client, "/f", bytes, BYTES, NULL), 0, "%s",
				     weka_error(client));
		cut_once = false;
		same(bytes);
	}
	cr_assert_eq(cuts, CUTS, "in %u puts", puts);
	cr_assert_str_empty(weka_error(client));
	free(bytes);
	close(fd);
	weka_close(client);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
}

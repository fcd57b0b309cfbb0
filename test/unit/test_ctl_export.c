/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* wekactl export from an appliance that lists names which lead out of the target. */
#include "test/lib/script_server.h"

#include "appliance/ctl/ctl.h"
#include "appliance/ctl/ctl_req.h"
#include "client-lib/weka_client.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct script server;
static char top[] = "/tmp/weka-export-XXXXXX";

/* As wekactl.c's. */
int ctl_fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	return 1;
}

static uint32_t entries_of(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *e;
	uint32_t count = 0;

	cr_assert_not_null(dir, "%s", path);
	while ((e = readdir(dir)))
		count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	closedir(dir);
	return count;
}

static int export(const char *to)
{
	struct weka_key key = { .secret = server.cfg.key.secret };
	struct weka_options options = { .size_bytes = sizeof(options),
					.requests_max = CTL_REQUESTS,
					.pool_bytes = 64 << 20 };
	char *args[] = { (char *)"d", (char *)(uintptr_t)to };
	struct ctl c = { .quiet = true, .threads = 2, .argc = 2, .argv = args };
	int status;

	cr_assert_eq(weka_connect(server.address, &key, &options, &c.client), 0, "%s",
		     weka_error(NULL));
	status = ctl_cmd_export(&c);
	weka_close(c.client);
	return status;
}

TestSuite(ctl_export, .timeout = 60);

Test(ctl_export, names_that_lead_out_of_the_target_are_refused)
{
	static const char *const bad[] = { "../evil", "sub/evil", "/tmp/evil", ".", ".." };
	char target[64], command[64];

	cr_assert_not_null(mkdtemp(top));
	snprintf(target, sizeof(target), "%s/target", top);
	script_init(&server);
	script_add(&server, "d", 0);
	server.files[0].mode = S_IFDIR | 0755;
	script_add(&server, "good", 10000);
	for (uint32_t i = 0; i < ARRAY_LEN(bad); i++)
		script_add(&server, bad[i], 5000);
	script_start(&server, "shm");
	cr_assert_eq(export(target), 1, "the names are errors");
	cr_assert_eq(entries_of(top), 1, "nothing beside the target");
	cr_assert_eq(entries_of(target), 1, "the good file alone");
	script_destroy(&server);
	snprintf(command, sizeof(command), "rm -rf %s", top);
	cr_assert_eq(system(command), 0);
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* wekactl status: as the appliance sends it (--json), every counter (--long), or a page. */
#include "appliance/ctl.h"
#include "appliance/ctl_status_text.h"
#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECONDS_MAX 3600ul

static int get(struct ctl *c, char **text, json_t **out)
{
	json_error_t why;
	int err = weka_status(c->client, text);

	if (err)
		return ctl_fail("status: %s", strerror(-err));
	*out = json_loads(*text, 0, &why);
	if (*out)
		return 0;
	free(*text);
	return ctl_fail("status: the appliance sent what is no JSON: %s", why.text);
}

/* Again and again, until somebody stops it. */
static int watch(struct ctl *c, json_t *before, unsigned seconds)
{
	for (;;) {
		uint64_t since_ns = clock_now_ns();
		char *text;
		json_t *now;

		sleep(seconds);
		if (get(c, &text, &now))
			return 1;
		printf("\n");
		ctl_status_page(stdout, now, before, (double)(clock_now_ns() - since_ns) / 1e9);
		fflush(stdout);
		json_decref(before);
		free(text);
		before = now;
	}
}

int ctl_cmd_status(struct ctl *c)
{
	unsigned long seconds = 0;
	char *text, *end;
	json_t *o;

	if (c->argc > 0) {
		seconds = strtoul(c->argv[0], &end, 10);
		if (*end || seconds < 1 || seconds > SECONDS_MAX)
			return ctl_fail("status: '%s' is no number of seconds from 1 to %lu",
					c->argv[0], SECONDS_MAX) +
			       1;
	}
	if (get(c, &text, &o))
		return 1;
	if (c->json)
		puts(text);
	else if (c->long_list)
		ctl_status_all(stdout, o);
	else
		ctl_status_page(stdout, o, NULL, 0);
	free(text);
	if (seconds && !c->json && !c->long_list)
		return watch(c, o, (unsigned)seconds);
	json_decref(o);
	return 0;
}

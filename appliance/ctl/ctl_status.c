/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* wekactl status: the appliance's JSON (--json), every counter (--long), or a page. */
#include "appliance/ctl/ctl.h"
#include "appliance/ctl/ctl_status_text.h"
#include "base/clock.h"
#include "base/num.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define SECONDS_MAX 3600ul

int ctl_status_get(struct ctl *c, char **text, json_t **out, char why[CTL_STATUS_WHY])
{
	json_error_t mistake;
	int err = weka_status(c->client, text);

	if (err) {
		snprintf(why, CTL_STATUS_WHY, "status: %s", strerror(-err));
		return err;
	}
	*out = json_loads(*text, 0, &mistake);
	if (*out)
		return 0;
	free(*text);
	snprintf(why, CTL_STATUS_WHY, "status: the appliance did not send JSON: %s", mistake.text);
	return -EPROTO;
}

static int get(struct ctl *c, char **text, json_t **out)
{
	char why[CTL_STATUS_WHY];

	return ctl_status_get(c, text, out, why) ? ctl_fail("%s", why) : 0;
}

/* Draws the page over the one before, if stdout is a terminal: warnings are at its top and stay
 * there, however many drives there are. */
static void redraw(const json_t *now, const json_t *before, double seconds)
{
	struct winsize w = { 0 };
	bool terminal = isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0;
	uint32_t columns = terminal && w.ws_col ? w.ws_col : CTL_STATUS_COLUMNS;

	printf(terminal ? "\033[H\033[J" : "\n");
	/* The last row stays empty: a newline there would scroll. */
	ctl_status_page(stdout, now, before, seconds, min_u32(columns, CTL_STATUS_COLUMNS),
			terminal && w.ws_row > 3 ? w.ws_row - 1u : 0);
	fflush(stdout);
}

/* Repeats until the user stops it. */
static int watch(struct ctl *c, json_t *before, unsigned seconds)
{
	for (;;) {
		uint64_t since_ns = clock_now_ns();
		char *text;
		json_t *now;

		sleep(seconds);
		if (get(c, &text, &now))
			return 1;
		redraw(now, before, (double)(clock_now_ns() - since_ns) / 1e9);
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
			return ctl_fail("status: '%s' is not a number of seconds from 1 to %lu",
					c->argv[0], SECONDS_MAX) +
			       1;
	}
	if (get(c, &text, &o))
		return 1;
	if (c->json)
		puts(text);
	else if (c->long_list)
		ctl_status_all(stdout, o);
	else if (seconds && isatty(STDOUT_FILENO))
		redraw(o, NULL, 0);
	else
		ctl_status_page(stdout, o, NULL, 0, CTL_STATUS_COLUMNS, 0);
	free(text);
	if (seconds && !c->json && !c->long_list)
		return watch(c, o, (unsigned)seconds);
	json_decref(o);
	return 0;
}

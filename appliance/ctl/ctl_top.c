/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl top: what an appliance does, again and again.
 *
 *   terminal: pages over one another, and keys     pipe: pages one after the other
 *   --json: an object a line                       --once: one page or object, of one interval
 */
#include "appliance/ctl/ctl.h"
#include "appliance/ctl/ctl_status_text.h"
#include "appliance/ctl/ctl_term.h"
#include "appliance/ctl/ctl_top_text.h"
#include "base/clock.h"
#include "base/num.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECONDS_MAX 3600ul

struct top {
	struct ctl *c;
	struct ctl_top_view view;
	uint64_t interval_ns;
	json_t *now, *before;
	char why[CTL_STATUS_WHY]; /* if take() failed */
};

static void forget(struct top *t)
{
	json_decref(t->now);
	json_decref(t->before);
}

/* Takes one more status; the last one becomes the one before.  Prints nothing: a line on the second
 * screen would be lost. */
static int take(struct top *t)
{
	json_t *fresh;
	char *text;
	int err = ctl_status_get(t->c, &text, &fresh, t->why);

	if (err)
		return err;
	free(text);
	json_decref(t->before);
	t->before = t->now;
	t->now = fresh;
	return 0;
}

static void print(const struct top *t)
{
	json_t *o;

	if (!t->c->json) {
		ctl_top_page(stdout, t->now, t->before, &t->view);
		return;
	}
	o = ctl_top_json(t->now, t->before, t->view.order);
	json_dumpf(o, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9));
	printf("\n");
	json_decref(o);
}

/* To a pipe or a file: until the user stops it. */
static int repeat(struct top *t)
{
	int err = take(t);

	for (bool first = true; !err; first = false) {
		sleep((unsigned)(t->interval_ns / NS_PER_S));
		err = take(t);
		if (err)
			break;
		if (!first && !t->c->json)
			printf("\n");
		print(t);
		if (fflush(stdout) != 0 || t->c->once)
			break;
	}
	return err;
}

static void draw(struct top *t)
{
	uint32_t columns, rows;
	char *page;
	size_t size;
	FILE *f = open_memstream(&page, &size);

	ASSERT(f);
	ctl_term_size(&columns, &rows);
	t->view.columns = columns;
	t->view.rows = rows;
	ctl_top_page(f, t->now, t->before, &t->view);
	if (fclose(f))
		UNREACHABLE();
	ctl_term_draw(page);
	free(page);
}

/* Returns false if it is time to end. */
static bool press(struct top *t, int key)
{
	switch (key) {
	case 'q':
	case 'Q':
	case -1:
		return false;
	case 'p':
	case 'P':
	case ' ':
		t->view.paused = !t->view.paused;
		return true;
	case 's':
	case 'S':
		t->view.order = (t->view.order + 1) % CTL_ORDERS;
		return true;
	default:
		return true;
	}
}

/* On a terminal: until the user stops it. */
static int watch(struct top *t)
{
	uint64_t next_ns = clock_now_ns() + NS_PER_S / 4; /* the first page has rates soon */
	int err;

	for (;;) {
		const uint64_t now_ns = clock_now_ns();
		const uint64_t left_ns = next_ns > now_ns ? next_ns - now_ns : 0;

		draw(t);
		/* A page that is paused is drawn again only for a key or another size. */
		if (!press(t, ctl_term_key(t->view.paused ? -1 : (int)(left_ns / NS_PER_MS) + 1)))
			return 0;
		if (t->view.paused || clock_now_ns() < next_ns)
			continue;
		err = take(t);
		if (err)
			return err;
		next_ns = clock_now_ns() + t->interval_ns;
	}
}

static int on_terminal(struct top *t)
{
	int err = take(t);

	if (err)
		return err;
	err = ctl_term_begin();
	if (err) {
		snprintf(t->why, sizeof(t->why), "top: the terminal: %s", strerror(-err));
		return err;
	}
	t->view.keys = true;
	err = watch(t);
	ctl_term_end();
	return err;
}

int ctl_cmd_top(struct ctl *c)
{
	struct top t = { .c = c, .view = { .columns = CTL_TOP_COLUMNS }, .interval_ns = NS_PER_S };
	unsigned long seconds;
	char *end;
	int err;

	if (c->argc > 0) {
		seconds = strtoul(c->argv[0], &end, 10);
		if (*end || seconds < 1 || seconds > SECONDS_MAX)
			return ctl_fail("top: '%s' is not a number of seconds from 1 to %lu",
					c->argv[0], SECONDS_MAX) +
			       1;
		t.interval_ns = seconds * NS_PER_S;
	}
	if (!c->once && !c->json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
		err = on_terminal(&t);
	else
		err = repeat(&t);
	forget(&t);
	return err ? ctl_fail("%s", t.why) : 0;
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* wekactl log: the last lines of the appliance's log, which it keeps in memory, page by page. */
#include "appliance/ctl/ctl.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static volatile sig_atomic_t stopped; /* volatile: a signal sets it */

static void stop(int sig)
{
	(void)sig;
	stopped = 1;
}

static const char *text_of(const json_t *line, const char *key)
{
	const char *text = json_string_value(json_object_get(line, key));

	return text ? text : "";
}

/* "WEKA-nnn: text": the bytes of the id, or 0. */
static size_t id_bytes(const char *text)
{
	const size_t bytes = strcspn(text, ":");

	return strncmp(text, "WEKA-", 5) == 0 && text[bytes] == ':' ? bytes : 0;
}

static void print_json(json_t *line)
{
	const char *text = text_of(line, "text");
	const size_t id = id_bytes(text);

	if (id)
		json_object_set_new(line, "id", json_stringn(text, id));
	json_dumpf(line, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
	printf("\n");
}

/* In the appliance's JSON each byte is one character, up to U+00FF: most are ASCII. */
static void print_text(const json_t *line)
{
	printf("%s %-7s ", text_of(line, "time"), text_of(line, "level"));
	for (const char *s = text_of(line, "text"); *s; s++) {
		const unsigned char c = (unsigned char)*s;

		if (c >= 0xc2 && c <= 0xc3 && s[1])
			putchar((char)((c & 3) << 6 | (*++s & 0x3f)));
		else
			putchar(c);
	}
	printf("\n");
}

static int page_get(struct ctl *c, uint64_t from, json_t **page)
{
	json_error_t why;
	char *text;

	if (weka_log(c->client, from, &text))
		return ctl_fail("%s", weka_error(c->client));
	*page = json_loads(text, 0, &why);
	free(text);
	return *page ? 0 : ctl_fail("log: the appliance did not send JSON: %s", why.text);
}

/* Prints what came since *from, and moves *from behind that. */
static int print_new(struct ctl *c, uint64_t *from)
{
	size_t lines = 1;

	while (lines > 0) {
		json_t *page, *line, *all;
		size_t i;

		if (page_get(c, *from, &page))
			return 1;
		all = json_object_get(page, "lines");
		lines = json_array_size(all);
		json_array_foreach(all, i, line)
		{
			if (c->json)
				print_json(line);
			else
				print_text(line);
		}
		*from = (uint64_t)json_integer_value(json_object_get(page, "next"));
		json_decref(page);
	}
	return fflush(stdout) ? ctl_fail("standard output: %s", strerror(errno)) : 0;
}

int ctl_cmd_log(struct ctl *c)
{
	const struct sigaction act = { .sa_handler = stop };
	const struct timespec second = { .tv_sec = 1 };
	uint64_t from = 0;
	int status = print_new(c, &from);

	if (!c->follow)
		return status;
	(void)sigaction(SIGINT, &act, NULL);
	(void)sigaction(SIGTERM, &act, NULL);
	while (!status && !stopped) {
		(void)nanosleep(&second, NULL);
		if (!stopped)
			status = print_new(c, &from);
	}
	return status;
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* wekactl damaged: list every file that is known to be damaged, page by page. */
#include "appliance/ctl/ctl.h"
#include "appliance/ctl/ctl_print.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* The path's bytes: in the appliance's JSON each is one character, up to U+00FF.  malloc()ed. */
static char *path_of(const json_t *entry)
{
	const char *s = json_string_value(json_object_get(entry, "path"));
	char *bytes = ctl_need(malloc((s ? strlen(s) : 0) + 1)), *to = bytes;

	for (; s && *s; s++) {
		const unsigned char c = (unsigned char)*s;

		if (c >= 0xc2 && c <= 0xc3 && s[1])
			*to++ = (char)((c & 3) << 6 | (*++s & 0x3f));
		else
			*to++ = (char)c;
	}
	*to = '\0';
	return bytes;
}

static const char *words_of(const char *damage)
{
	if (strcmp(damage, "checksum") == 0)
		return "damaged";
	if (strcmp(damage, "unreadable") == 0)
		return "cannot be read";
	if (strcmp(damage, "unreachable") == 0)
		return "on a drive that has failed";
	if (strcmp(damage, "index") == 0)
		return "a page of the index, with names and files below it";
	return "damaged in a way that this wekactl does not know";
}

static const char *words_of_page(const char *damage)
{
	if (strcmp(damage, "unreachable") == 0)
		return "a page of the index, with names and files below it, on a drive that has "
		       "failed";
	return words_of(damage);
}

static json_int_t num(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

static void print_drives(const json_t *entry)
{
	const json_t *drives = json_object_get(entry, "drives"), *d;
	size_t i;

	printf(json_array_size(drives) == 1 ? "; drive" : "; drives");
	json_array_foreach(drives, i, d) printf(" %" JSON_INTEGER_FORMAT, json_integer_value(d));
}

static void print_entry(const json_t *entry)
{
	const char *said = json_string_value(json_object_get(entry, "damage"));
	const char *damage = said ? said : "";
	const bool page =
		json_is_true(json_object_get(entry, "index")) || strcmp(damage, "index") == 0;
	const json_int_t blocks = num(entry, "blocks"), first = num(entry, "first");
	char *path = path_of(entry);

	if (*path)
		ctl_print_name(stdout, path, true);
	else
		printf("(without a name, %s)", json_string_value(json_object_get(entry, "handle")));
	free(path);
	printf(": %s", page ? words_of_page(damage) : words_of(damage));
	if (!page)
		printf(": %" JSON_INTEGER_FORMAT " block%s, the first %" JSON_INTEGER_FORMAT,
		       blocks, blocks == 1 ? "" : "s", first);
	print_drives(entry);
	printf("\n");
}

/* One page.  *from: where the next begins; *more: there is one. */
static void print_page(const struct ctl *c, const json_t *page, uint64_t *from, bool *more)
{
	const json_t *entry, *next = json_object_get(page, "next");
	size_t i;

	json_array_foreach(json_object_get(page, "damaged"), i, entry)
	{
		if (!c->json) {
			print_entry(entry);
			continue;
		}
		json_dumpf(entry, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
		printf("\n");
	}
	*more = json_is_integer(next) && json_integer_value(next) > (json_int_t)*from;
	*from = *more ? (uint64_t)json_integer_value(next) : 0;
}

static void print_sum(const struct ctl *c, const json_t *page)
{
	const bool complete = json_is_true(json_object_get(page, "complete"));

	if (c->json)
		return;
	fprintf(stderr,
		"%" JSON_INTEGER_FORMAT " damaged files, %" JSON_INTEGER_FORMAT
		" on drives that have failed, %" JSON_INTEGER_FORMAT
		" damaged pages of the index, %" JSON_INTEGER_FORMAT
		" on drives that have failed%s\n",
		num(page, "files"), num(page, "unreachable_files"), num(page, "pages"),
		num(page, "unreachable_pages"),
		complete ? "" : "; there may be more: the scrub has not looked at everything");
}

int ctl_cmd_damaged(struct ctl *c)
{
	uint64_t from = 0;
	bool more = true;

	while (more) {
		json_error_t why;
		json_t *page;
		char *text;
		int err = weka_damaged(c->client, from, &text);

		if (err)
			return ctl_fail("%s", weka_error(c->client));
		page = json_loads(text, 0, &why);
		free(text);
		if (!page)
			return ctl_fail("damaged: the appliance did not send JSON: %s", why.text);
		print_page(c, page, &from, &more);
		if (!more)
			print_sum(c, page);
		json_decref(page);
	}
	return 0;
}

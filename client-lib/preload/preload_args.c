/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The environment variable WEKA_PRELOAD, which reads like a command line of weka-mount:
 *
 *     [-o OPTION,...] [ADDRESSES] DIR
 *
 *     options: key=FILE, key_id=NAME, anonymous, root=PATH, timeout=SECONDS
 *
 * DIR is the rest of the text, so it may have spaces.  Without ADDRESSES they come from
 * WEKA_ADDRESS. The options of weka-mount that have no meaning here are accepted.
 *
 *  (1) args->dir begins with "/" and has no component "." or "..", and no empty one.
 */
#define _GNU_SOURCE
#include "client-lib/preload/preload.h"

#include "base/clock.h"
#include "base/num.h"

#include <stdlib.h>
#include <string.h>

static const char *const ignored[] = { "ro",    "rw",      "allow_other", "buffered",
				       "cache", "threads", "log" };

static const char *set_time(struct preload_args *a, const char *text)
{
	char *end;
	const double s = strtod(text, &end);

	if (end == text || *end || !(s >= 1 && s <= 1e6))
		return "timeout: this is not a number of seconds, at least 1";
	a->timeout_ns = (uint64_t)(s * (double)NS_PER_S);
	return NULL;
}

static const char *set_option(struct preload_args *a, char *option)
{
	char *value = strchr(option, '=');

	if (value)
		*value++ = 0;
	if (strcmp(option, "anonymous") == 0 && !value) {
		a->anonymous = true;
		return NULL;
	}
	for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
		if (strcmp(option, ignored[i]) == 0)
			return NULL;
	if (!value)
		return "unknown option";
	if (strcmp(option, "key") == 0)
		a->key_file = value;
	else if (strcmp(option, "key_id") == 0)
		a->key_id = value;
	else if (strcmp(option, "root") == 0)
		a->root = value;
	else if (strcmp(option, "timeout") == 0)
		return set_time(a, value);
	else
		return "unknown option";
	return NULL;
}

static const char *set_options(struct preload_args *a, char *text)
{
	const char *why = NULL;

	while (text && !why) {
		char *comma = strchr(text, ',');

		if (comma)
			*comma++ = 0;
		if (*text)
			why = set_option(a, text);
		text = comma;
	}
	return why;
}

/* Ends the word at `text`, and returns the start of the next one. */
static char *next_word(char *text)
{
	text += strcspn(text, " \t\n");
	if (*text)
		*text++ = 0;
	return text + strspn(text, " \t\n");
}

/* Removes empty components and "." in place; false: it has "..", or is not absolute. */
static bool clean(char *path)
{
	const char *from = path, *name;
	char *to = path;
	size_t bytes;

	if (*path != '/')
		return false;
	for (;;) {
		name = preload_component(&from, &bytes);
		if (bytes == 0)
			break;
		if (bytes == 2 && memcmp(name, "..", 2) == 0)
			return false;
		if (bytes == 1 && *name == '.')
			continue;
		*to++ = '/';
		memmove(to, name, bytes);
		to += bytes;
	}
	ASSERT(to <= from);
	*to = 0;
	return true;
}

const char *preload_args_parse(struct preload_args *a, char *text)
{
	static char root[2]; /* unless it is given: then it lies in `text`, like the others */
	const char *why = NULL;
	char *rest, *dir;

	memcpy(root, "/", sizeof(root));
	*a = (struct preload_args){
		.key_file = getenv("WEKA_KEY_FILE"),
		.addresses = getenv("WEKA_ADDRESS"),
		.root = root,
		.timeout_ns = 30 * NS_PER_S,
	};
	text += strspn(text, " \t\n");
	while (!why && strncmp(text, "-o", 2) == 0) {
		char *options = text + 2 + strspn(text + 2, " \t\n");

		rest = next_word(options);
		why = set_options(a, options);
		text = rest;
	}
	if (why)
		return why;
	dir = text;
	if (*text && *text != '/') {
		dir = next_word(text);
		a->addresses = text;
	}
	if (!a->addresses || !*dir)
		return "it is [-o OPTION,...] [ADDRESSES] DIR";
	if (!clean(dir) || !*dir)
		return "DIR must be an absolute path without \"..\", and not /";
	ASSERT(dir[0] == '/' && dir[1] && dir[strlen(dir) - 1] != '/'); /* (1) */
	a->dir = dir;
	if (!clean(a->root))
		return "root must be an absolute path without \"..\"";
	if (a->anonymous)
		a->key_file = NULL;
	return NULL;
}

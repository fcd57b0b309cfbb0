/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* wekactl dataset: makes, lists, checks, compares and removes versions of datasets. */
#include "appliance/ctl/ctl.h"
#include "appliance/ctl/ctl_print.h"
#include "base/clock.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "NAME" or "NAME@VERSION"; version 0: none was given. */
struct spec {
	char name[WEKA_DATASET_NAME_MAX + 2]; /* one byte more: the library refuses it */
	uint32_t version;
};

static int spec_parse(const char *text, struct spec *out)
{
	const char *at = strchr(text, '@');
	size_t length = at ? (size_t)(at - text) : strlen(text);
	unsigned long version;
	char *end;

	if (length >= sizeof(out->name))
		length = sizeof(out->name) - 1;
	memcpy(out->name, text, length);
	out->name[length] = 0;
	out->version = 0;
	if (!at)
		return 0;
	version = strtoul(at + 1, &end, 10);
	if (at[1] < '1' || at[1] > '9' || *end || version > UINT32_MAX)
		return ctl_fail("'%s': a version is a number from 1 on: %s@1", text, out->name) + 1;
	out->version = (uint32_t)version;
	return 0;
}

/* The name alone, in place. */
static const char *name_of(char *text)
{
	text[strcspn(text, "@")] = 0;
	return text;
}

static int failed(const struct ctl *c)
{
	return ctl_fail("%s", weka_error(c->client));
}

static int open_spec(const struct ctl *c, const char *text, struct weka_dataset **out,
		     struct weka_dataset_info *info)
{
	struct spec spec;
	int status = spec_parse(text, &spec);

	if (status)
		return status;
	if (weka_dataset_open(c->client, spec.name, spec.version, out))
		return failed(c);
	*info = (struct weka_dataset_info){ .size_bytes = sizeof(*info) };
	return weka_dataset_get_info(*out, info) ? failed(c) : 0;
}

/* ---- what a version is ---------------------------------------------------------------------- */

static void content_text(char to[65], const struct weka_dataset_info *info)
{
	for (uint32_t i = 0; i < sizeof(info->content); i++)
		snprintf(to + 2 * i, 3, "%02x", info->content[i]);
}

static void print_version(const struct ctl *c, const char *name,
			  const struct weka_dataset_info *info)
{
	char content[65], when[CLOCK_TEXT];

	content_text(content, info);
	if (!c->json) {
		clock_print_utc(when, (uint64_t)info->created_ns);
		printf("%s@%u  %llu samples, %llu bytes, %u classes, made %s, content %.16s%s\n",
		       name, info->version, (unsigned long long)info->samples,
		       (unsigned long long)info->total_bytes, info->classes, when, content,
		       info->is_quick ? " (quick)" : "");
		return;
	}
	ctl_json_print(json_pack(
		"{ss, sI, sI, sI, sI, sI, sI, sb, ss}", "name", name, "version",
		(json_int_t)info->version, "samples", (json_int_t)info->samples, "bytes",
		(json_int_t)info->total_bytes, "largest_bytes", (json_int_t)info->largest_bytes,
		"classes", (json_int_t)info->classes, "created_ns", (json_int_t)info->created_ns,
		"quick", (int)info->is_quick, "content", content));
}

static int show(struct ctl *c)
{
	struct weka_dataset *d = NULL;
	struct weka_dataset_info info;
	int status = open_spec(c, c->argv[1], &d, &info);
	const char *name;

	if (!status) {
		print_version(c, name_of(c->argv[1]), &info);
		for (uint32_t i = 0; !c->json && (name = weka_dataset_class(d, i)); i++) {
			printf("  class %u: ", i);
			ctl_print_path(name);
			putchar('\n');
		}
	}
	weka_dataset_close(d);
	return status;
}

/* ---- list ------------------------------------------------------------------------------------ */

/* All versions of one name. */
static int list_name(struct ctl *c, const char *name)
{
	char path[sizeof(WEKA_DATASETS) + WEKA_NAME_MAX + 2], text[WEKA_NAME_MAX * 2 + 8];
	struct weka_ref ref;
	struct weka_dataset_info info;
	struct weka_entry entry;
	struct weka_dir *dir;
	int rc, status = 0;

	snprintf(path, sizeof(path), "%s/%s", WEKA_DATASETS, name);
	ref = weka_ref_path(path);
	rc = weka_list(c->client, &ref, &dir);
	if (rc)
		return failed(c);
	while ((rc = weka_list_next(dir, &entry)) == 1) {
		struct weka_dataset *d = NULL;

		snprintf(text, sizeof(text), "%s@%s", name, entry.name);
		if (open_spec(c, text, &d, &info))
			status = 1;
		else
			print_version(c, name, &info);
		weka_dataset_close(d);
	}
	weka_list_end(dir);
	return rc ? failed(c) : status;
}

static int list(struct ctl *c)
{
	struct weka_ref ref = weka_ref_path(WEKA_DATASETS);
	struct weka_entry entry;
	struct weka_dir *dir;
	int rc, status = 0;

	if (c->argc == 2)
		return list_name(c, c->argv[1]);
	rc = weka_list(c->client, &ref, &dir);
	if (rc == -ENOENT)
		return 0; /* there are none yet */
	if (rc)
		return failed(c);
	while ((rc = weka_list_next(dir, &entry)) == 1)
		status |= list_name(c, entry.name);
	weka_list_end(dir);
	return rc ? failed(c) : status;
}

/* ---- create, verify -------------------------------------------------------------------------- */

static int report(void *user, uint64_t done, uint64_t total)
{
	struct ctl_progress *p = user;

	p->files = done;
	p->files_total = total;
	ctl_progress_step(p);
	return 0;
}

static int create(struct ctl *c)
{
	struct weka_dataset_info info = { .size_bytes = sizeof(info) };
	struct ctl_progress bar;
	const struct weka_progress progress = { report, &bar };
	const struct weka_dataset_make how = {
		.flags = (c->quick ? WEKA_DATASET_QUICK : 0) |
			 (c->no_labels ? WEKA_DATASET_NO_LABEL : 0),
		.glob = c->glob,
		.records = c->records,
		.progress = &progress,
	};
	int err;

	ctl_progress_begin(&bar, "dataset", !c->quiet && !c->json);
	err = weka_dataset_create(c->client, c->argv[1], c->argv[2], &how, &info);
	(void)ctl_progress_end(&bar);
	if (err)
		return failed(c);
	print_version(c, c->argv[1], &info);
	return 0;
}

static int verify(struct ctl *c)
{
	struct weka_dataset *d = NULL;
	struct weka_dataset_info info;
	struct weka_sample sample;
	struct ctl_progress bar;
	const struct weka_progress progress = { report, &bar };
	uint64_t changed = 0, first = 0;
	int status = open_spec(c, c->argv[1], &d, &info);

	if (status)
		return status;
	ctl_progress_begin(&bar, "verify", !c->quiet && !c->json);
	if (weka_dataset_verify(d, &progress, &changed, &first))
		status = failed(c);
	(void)ctl_progress_end(&bar);
	if (!status && changed) {
		if (weka_dataset_sample(d, first, &sample))
			status = failed(c);
		else
			status = ctl_fail("%s: %llu of %llu samples were changed or removed since; "
					  "the first is %s%s%s",
					  c->argv[1], (unsigned long long)changed,
					  (unsigned long long)info.samples, sample.path,
					  sample.member[0] ? " " : "", sample.member);
	} else if (!status) {
		print_version(c, name_of(c->argv[1]), &info);
	}
	weka_dataset_close(d);
	return status;
}

/* ---- compare --------------------------------------------------------------------------------- */

static void print_difference(const struct ctl *c, char sign, const struct weka_sample *s)
{
	if (c->json) {
		ctl_json_print(json_pack("{ss, so, so}", "change",
					 sign == '+'   ? "added"
					 : sign == '-' ? "removed"
						       : "changed",
					 "path", ctl_json_name(s->path), "member",
					 ctl_json_name(s->member)));
		return;
	}
	printf("%c ", sign);
	ctl_print_path(s->path);
	if (s->member[0]) {
		putchar(' ');
		ctl_print_path(s->member);
	}
	putchar('\n');
}

/* Both lists are sorted by path.  Returns 0, 1 when they differ, or 2 after a line. */
static int compare_lists(const struct ctl *c, struct weka_dataset *d[2],
			 const struct weka_dataset_info info[2])
{
	static struct weka_sample s[2];
	uint64_t at[2] = { 0, 0 };
	int differ = 0;

	while (at[0] < info[0].samples || at[1] < info[1].samples) {
		int order = at[0] == info[0].samples ? 1 : at[1] == info[1].samples ? -1 : 0;

		for (uint32_t i = 0; i < 2; i++)
			if (at[i] < info[i].samples && weka_dataset_sample(d[i], at[i], &s[i]))
				return failed(c) + 1;
		if (order == 0)
			order = strcmp(s[0].path, s[1].path);
		if (order == 0 && strcmp(s[0].member, s[1].member) != 0)
			order = s[0].offset_bytes <= s[1].offset_bytes ? -1 : 1;
		at[0] += order <= 0;
		at[1] += order >= 0;
		if (order == 0 && s[0].size_bytes == s[1].size_bytes && s[0].check == s[1].check)
			continue;
		print_difference(c, order < 0 ? '-' : order > 0 ? '+' : '~', &s[order > 0]);
		differ = 1;
	}
	return differ;
}

static int compare(struct ctl *c)
{
	struct weka_dataset *d[2] = { NULL, NULL };
	struct weka_dataset_info info[2];
	int status = 0;

	for (uint32_t i = 0; i < 2 && !status; i++)
		status = open_spec(c, c->argv[1 + i], &d[i], &info[i]);
	if (!status && (info[0].is_quick || info[1].is_quick))
		fprintf(stderr, "wekactl: a quick dataset is compared by names and sizes only\n");
	status = status ? 2 : compare_lists(c, d, info);
	weka_dataset_close(d[0]);
	weka_dataset_close(d[1]);
	return status;
}

static int drop(struct ctl *c)
{
	const char *at = strchr(c->argv[1], '@');
	struct spec spec;
	int status;

	if (!at)
		return ctl_fail("say which version: %s@1, or %s@all", c->argv[1], c->argv[1]) + 1;
	if (strcmp(at, "@all") == 0)
		c->argv[1][at - c->argv[1]] = 0;
	status = spec_parse(c->argv[1], &spec);
	if (!status && weka_dataset_drop(c->client, spec.name, spec.version))
		status = failed(c);
	return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

int ctl_cmd_dataset(struct ctl *c)
{
	static const struct {
		const char *name;
		const char *args;
		int least, most;
		int (*run)(struct ctl *c);
	} actions[] = {
		{ "create", "NAME PATH", 2, 2, create },
		{ "list", "[NAME]", 0, 1, list },
		{ "show", "NAME[@N]", 1, 1, show },
		{ "verify", "NAME[@N]", 1, 1, verify },
		{ "compare", "NAME@N NAME@N", 2, 2, compare },
		{ "drop", "NAME@N|NAME@all", 1, 1, drop },
	};

	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
		if (strcmp(c->argv[0], actions[i].name) != 0)
			continue;
		if (c->argc - 1 < actions[i].least || c->argc - 1 > actions[i].most)
			return ctl_fail("usage: wekactl dataset %s %s", actions[i].name,
					actions[i].args) +
			       1;
		return actions[i].run(c);
	}
	return ctl_fail("dataset: '%s' is none of create, list, show, verify, compare, drop",
			c->argv[0]) +
	       1;
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#define _GNU_SOURCE
#include "appliance/ctl/ctl_wave.h"
#include "base/num.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool ctl_wave_fits(const struct ctl_wave *w, const struct ctl_dirs *dirs, const struct ctl_dir *dir,
		   uint64_t size_bytes)
{
	const bool other = w->count == 0 || w->file[w->count - 1].dir != dir;

	return w->count < CTL_WAVE_FILES && w->dirs + other <= ctl_dirs_a_wave(dirs) &&
	       w->payload_bytes + align_up(size_bytes, WEKA_BLOCK) <= CTL_WAVE_PAYLOAD;
}

struct ctl_file *ctl_wave_add(struct ctl_wave *w, struct ctl_dir *dir, const char *name,
			      uint64_t size_bytes)
{
	struct ctl_file *f = &w->file[w->count];

	w->dirs += w->count == 0 || w->file[w->count - 1].dir != dir;
	w->count++;
	ctl_dir_pin(dir);
	*f = (struct ctl_file){
		.dir = dir,
		.name = ctl_need(strdup(name)),
		.size_bytes = size_bytes,
		.window_at = (uint32_t)w->payload_bytes,
		.wanted = true,
	};
	w->payload_bytes += align_up(size_bytes, WEKA_BLOCK);
	return f;
}

void ctl_wave_clear(struct ctl_wave *w)
{
	ASSERT(!w->r.in_flight);
	for (uint32_t i = 0; i < w->count; i++) {
		ctl_dir_unpin(w->file[i].dir);
		free(w->file[i].name);
		free(w->file[i].text);
		ctl_attrs_clear(&w->file[i].attrs);
	}
	w->count = 0;
	w->dirs = 0;
	w->nitems = 0;
	w->payload_bytes = 0;
	w->sent = false;
}

int ctl_wave_wait(struct ctl *c, struct ctl_wave *w)
{
	return ctl_req_wait(c, &w->r);
}

struct weka_window ctl_wave_window(const struct ctl_wave *w)
{
	return (struct weka_window){ w->lease, 0, CTL_WAVE_WINDOW };
}

struct weka_window ctl_wave_text(const struct ctl_wave *w, uint32_t i)
{
	return (struct weka_window){ w->lease, (uint64_t)i * CTL_TEXT_BYTES, CTL_TEXT_BYTES };
}

int ctl_waves_create(struct ctl *c, struct ctl_wave **out)
{
	struct ctl_wave *waves = calloc(CTL_WAVES, sizeof(*waves));
	int err = 0;

	if (!waves)
		return -ENOMEM;
	for (uint32_t i = 0; i < CTL_WAVES && !err; i++)
		err = weka_lease(c->client, CTL_WAVE_WINDOW, &waves[i].lease);
	*out = waves;
	return err;
}

void ctl_waves_destroy(struct ctl *c, struct ctl_wave *waves)
{
	for (uint32_t i = 0; waves && i < CTL_WAVES; i++) {
		(void)ctl_wave_wait(c, &waves[i]);
		waves[i].r.in_flight = false;
		ctl_wave_clear(&waves[i]);
		weka_release(c->client, waves[i].lease);
	}
	free(waves);
}

char *ctl_join(const char *dir, const char *name)
{
	size_t length = strlen(dir);
	char *out;

	while (length > 0 && dir[length - 1] == '/')
		length--;
	if (asprintf(&out, "%.*s%s%s", (int)length, dir, *dir && *name ? "/" : "", name) < 0)
		out = NULL;
	return ctl_need(out);
}

__attribute__((format(printf, 2, 0))) static void line(struct ctl_progress *p, const char *fmt,
						       va_list ap)
{
	char *text;

	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	for (char *c = ctl_need(text); *c; c++) /* a name may hold anything but a slash */
		if (iscntrl((unsigned char)*c))
			*c = '?';
	fprintf(stderr, "%swekactl: %s\n", p && p->on ? "\r\033[K" : "", text);
	free(text);
}

void ctl_tally_error(struct ctl_tally *t, struct ctl_progress *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	line(p, fmt, ap);
	va_end(ap);
	t->errors++;
}

void ctl_tally_note(struct ctl_progress *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	line(p, fmt, ap);
	va_end(ap);
}

int ctl_tally_print(const struct ctl *c, const char *what, const struct ctl_tally *t)
{
	double rate = t->seconds > 0 ? 1 / t->seconds : 0;
	char rare[160];
	int at = 0;

	rare[0] = 0;
	if (t->repaired)
		at += snprintf(rare, 50, "%llu repaired, ", (unsigned long long)t->repaired);
	if (t->times_changed)
		at += snprintf(rare + at, 50, "%llu times changed, ",
			       (unsigned long long)t->times_changed);
	if (t->not_tried)
		snprintf(rare + at, 50, "%llu not tried, ", (unsigned long long)t->not_tried);
	if (c->json)
		printf("{\"command\":\"%s\",\"files\":%llu,\"dirs\":%llu,\"symlinks\":%llu,"
		       "\"links\":%llu,\"attributes\":%llu,\"attributes_left\":%llu,"
		       "\"skipped\":%llu,\"bytes\":%llu,\"errors\":%llu,"
		       "\"repaired\":%llu,\"times_changed\":%llu,\"not_tried\":%llu,"
		       "\"seconds\":%.3f}\n",
		       what, (unsigned long long)t->files, (unsigned long long)t->dirs,
		       (unsigned long long)t->symlinks, (unsigned long long)t->links,
		       (unsigned long long)t->attrs, (unsigned long long)t->attrs_left,
		       (unsigned long long)t->skipped, (unsigned long long)t->bytes,
		       (unsigned long long)t->errors, (unsigned long long)t->repaired,
		       (unsigned long long)t->times_changed, (unsigned long long)t->not_tried,
		       t->seconds);
	else
		printf("%s: %llu files, %llu directories, %llu symlinks, %llu more links, %llu "
		       "attributes (%llu left), %llu bytes (%llu were there "
		       "already), %s%llu errors; %.1f s, %.0f files/s, %.1f MB/s\n",
		       what, (unsigned long long)t->files, (unsigned long long)t->dirs,
		       (unsigned long long)t->symlinks, (unsigned long long)t->links,
		       (unsigned long long)t->attrs, (unsigned long long)t->attrs_left,
		       (unsigned long long)t->bytes, (unsigned long long)t->skipped, rare,
		       (unsigned long long)t->errors, t->seconds,
		       (double)(t->files + t->symlinks) * rate, (double)t->bytes / 1e6 * rate);
	return t->errors ? 1 : 0;
}

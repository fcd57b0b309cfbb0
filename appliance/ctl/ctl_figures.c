/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "appliance/ctl/ctl_figures.h"
#include "base/num.h"

#include <ctype.h>
#include <string.h>

uint64_t ctl_num(const json_t *o, const char *group, const char *key)
{
	const json_t *v = json_object_get(group ? json_object_get(o, group) : o, key);
	const json_int_t n = json_is_integer(v) ? json_integer_value(v) : 0;

	return n > 0 ? (uint64_t)n : 0;
}

static char shown(char c)
{
	return isprint((unsigned char)c) ? c : '?';
}

void ctl_print_shown(FILE *to, const char *s)
{
	while (*s)
		fputc(shown(*s++), to);
}

struct ctl_text ctl_shown(const char *from)
{
	struct ctl_text t = { "" };

	for (size_t i = 0; from && from[i] && i + 1 < sizeof(t.s); i++)
		t.s[i] = shown(from[i]);
	return t;
}

struct ctl_text ctl_word(const json_t *o, const char *key)
{
	return ctl_shown(json_string_value(json_object_get(o, key)));
}

/* Three digits are as many as anybody reads.  The number stays at most `most` if a unit allows. */
static struct ctl_text scaled(double v, double most, const char *const unit[7])
{
	struct ctl_text t;
	uint32_t i = 0;

	for (; v >= most + 0.5 && i + 1 < 7; i++)
		v /= 1000;
	snprintf(t.s, sizeof(t.s), "%.*f%s", i == 0 || v >= 99.95 ? 0 : 1, v, unit[i]);
	return t;
}

struct ctl_text ctl_bytes(double v)
{
	static const char *const unit[7] = { " bytes", " kB", " MB", " GB", " TB", " PB", " EB" };

	return scaled(v, 999, unit);
}

struct ctl_text ctl_short_bytes(double v)
{
	struct ctl_text t = ctl_bytes(v);
	char *unit = strstr(t.s, " bytes");

	if (unit)
		memcpy(unit, " B", sizeof(" B"));
	return t;
}

struct ctl_text ctl_count(double v)
{
	static const char *const unit[7] = { "", " k", " M", " G", " T", " P", " E" };

	return scaled(v, 9999, unit);
}

struct ctl_text ctl_duration(uint64_t seconds)
{
	const unsigned long long s = seconds;
	struct ctl_text t;

	if (s < 60)
		snprintf(t.s, sizeof(t.s), "%llu s", s);
	else if (s < 3600)
		snprintf(t.s, sizeof(t.s), "%llu min %llu s", s / 60, s % 60);
	else if (s < 86400)
		snprintf(t.s, sizeof(t.s), "%llu h %llu min", s / 3600, s / 60 % 60);
	else
		snprintf(t.s, sizeof(t.s), "%llu d %llu h", s / 86400, s / 3600 % 24);
	return t;
}

struct ctl_text ctl_microseconds(double us)
{
	struct ctl_text t;

	if (us < 999.5)
		snprintf(t.s, sizeof(t.s), "%.*f us", us < 9.95 ? 1 : 0, us);
	else if (us < 999500)
		snprintf(t.s, sizeof(t.s), "%.*f ms", us < 99950 ? 1 : 0, us / 1000);
	else
		snprintf(t.s, sizeof(t.s), "%.1f s", us / 1000000);
	return t;
}

unsigned ctl_percent(uint64_t part, uint64_t whole)
{
	return whole ? (unsigned)(100.0 * (double)part / (double)whole) : 0;
}

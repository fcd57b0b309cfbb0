/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl drives: the only place that parses foreign text and bytes: addresses that people type,
 * the kernel's table of mounts, a drive's health page, and the file of remembered drives.
 *
 *   # comment
 *   pci:0000:01:00.0 serial=S63ANX0R512345 user=weka group=weka forced
 *   pci:0000:02:00.0
 *
 * In a value every byte that is not printable ASCII, a blank or '%' is written %XX.
 */
#include "appliance/ctl/ctl_drives.h"
#include "base/num.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- words and lines -------------------------------------------------------------------- */

char *ctl_next_line(char **text)
{
	char *line = *text, *end;

	if (!*line)
		return NULL;
	end = line + strcspn(line, "\n");
	*text = *end ? end + 1 : end;
	*end = '\0';
	return line;
}

char *ctl_next_word(char **line)
{
	char *word = *line + strspn(*line, " \t"), *end;

	if (!*word)
		return NULL;
	end = word + strcspn(word, " \t");
	*line = *end ? end + 1 : end;
	*end = '\0';
	return word;
}

static int digit_of(char c, uint32_t base)
{
	uint32_t v = 99;

	if (c >= '0' && c <= '9')
		v = (uint32_t)(c - '0');
	else if (c >= 'a' && c <= 'f')
		v = (uint32_t)(c - 'a') + 10;
	else if (c >= 'A' && c <= 'F')
		v = (uint32_t)(c - 'A') + 10;
	return v < base ? (int)v : -1;
}

/* ---- addresses ------------------------------------------------------------------------------ */

/* Parses 1 to digits_max hexadecimal digits and then `end`; returns the rest, or NULL. */
static const char *hex_until(const char *text, uint32_t digits_max, char end, uint32_t *out)
{
	uint32_t digits = 0;

	for (*out = 0; digit_of(*text, 16) >= 0; text++) {
		if (++digits > digits_max)
			return NULL;
		*out = *out << 4 | (uint32_t)digit_of(*text, 16);
	}
	return digits == 0 || *text != end ? NULL : text + (end != '\0');
}

int ctl_pci_parse(const char *text, char out[CTL_PCI_SIZE])
{
	uint32_t domain = 0, bus, dev, fn;
	const char *rest, *first;

	if (strncmp(text, "pci:", 4) == 0)
		text += 4;
	first = strchr(text, ':');
	if (first && strchr(first + 1, ':')) { /* a domain has 4 digits, or more under a VMD */
		text = hex_until(text, 8, ':', &domain);
		if (!text)
			return -EINVAL;
	}
	rest = hex_until(text, 2, ':', &bus);
	rest = rest ? hex_until(rest, 2, '.', &dev) : NULL;
	rest = rest ? hex_until(rest, 1, '\0', &fn) : NULL;
	if (!rest || dev > 31 || fn > 7)
		return -EINVAL;
	snprintf(out, CTL_PCI_SIZE, "%04x:%02x:%02x.%u", domain, bus, dev & 31, fn & 7);
	return 0;
}

/* ---- mounts ---------------------------------------------------------------------------------- */

/* \040 and the like, in place. */
static void unescape_octal(char *text)
{
	char *to = text;

	while (*text) {
		if (text[0] == '\\' && digit_of(text[1], 4) >= 0 && digit_of(text[2], 8) >= 0 &&
		    digit_of(text[3], 8) >= 0) {
			int c = digit_of(text[1], 4) << 6 | digit_of(text[2], 8) << 3 |
				digit_of(text[3], 8);

			*to++ = c ? (char)c : '?';
			text += 4;
		} else {
			*to++ = *text++;
		}
	}
	*to = '\0';
}

bool ctl_mount_parse(char *line, struct ctl_mount *out)
{
	char *word[6], *type, *source;

	for (uint32_t i = 0; i < ARRAY_LEN(word); i++) { /* id parent dev root where options */
		word[i] = ctl_next_word(&line);
		if (!word[i])
			return false;
	}
	do { /* any number of optional fields, then a dash */
		type = ctl_next_word(&line);
		if (!type)
			return false;
	} while (strcmp(type, "-") != 0);
	type = ctl_next_word(&line);
	source = ctl_next_word(&line);
	if (!type || !source)
		return false;
	unescape_octal(word[4]);
	unescape_octal(source);
	*out = (struct ctl_mount){ word[2], word[4], type, source };
	return true;
}

/* ---- health --------------------------------------------------------------------------------- */

/* The low half of a number of 128 bits, all ones when the high half is not empty. */
static uint64_t u128_at(const uint8_t *p)
{
	uint64_t low = 0, high = 0;

	for (uint32_t i = 8; i-- > 0;) {
		low = low << 8 | p[i];
		high = high << 8 | p[8 + i];
	}
	return high ? UINT64_MAX : low;
}

void ctl_health_parse(const uint8_t page[CTL_HEALTH_BYTES], struct ctl_health *out)
{
	*out = (struct ctl_health){
		.warning = page[0],
		.celsius = (page[1] | page[2] << 8) - 273,
		.spare_percent = page[3],
		.spare_threshold_percent = page[4],
		.used_percent = page[5],
		.written_units = u128_at(page + 48),
		.power_on_hours = u128_at(page + 128),
		.unsafe_shutdowns = u128_at(page + 144),
		.media_errors = u128_at(page + 160),
	};
}

const char *ctl_health_word(const struct ctl_health *h)
{
	if (h->warning & 1 << 3)
		return "read-only";
	if (h->warning & 1 << 2)
		return "unreliable";
	if (h->warning & 1 << 4)
		return "backup failed"; /* of its volatile memory, at a power cut */
	if (h->warning & 1 << 0)
		return "spare low";
	if (h->warning & 1 << 1)
		return "temperature";
	if (h->warning)
		return "warning";
	return h->used_percent >= 100 ? "worn out" : "ok";
}

/* ---- the file of drives --------------------------------------------------------------------- */

bool ctl_account_ok(const char *name)
{
	size_t size = strlen(name);

	return size > 0 && size < CTL_ACCOUNT_SIZE && name[0] != '-' &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") ==
		       size;
}

/* "%20" and the like undone into `out`; false: it does not fit, or is not well formed. */
static bool take_value(char *out, size_t out_size, const char *value)
{
	size_t at = 0;

	for (; *value; value++) {
		int c = (unsigned char)*value;

		if (c == '%') {
			int high = digit_of(value[1], 16);
			int low = high < 0 ? -1 : digit_of(value[2], 16);

			if (low < 0)
				return false;
			c = high << 4 | low;
			value += 2;
		}
		if (c < ' ' || c > '~' || at + 1 >= out_size)
			return false;
		out[at++] = (char)c;
	}
	out[at] = '\0';
	return at > 0;
}

static const char *take_word(struct ctl_saved *s, const char *word)
{
	if (strcmp(word, "forced") == 0) {
		s->forced = true;
		return NULL;
	}
	if (strncmp(word, "serial=", 7) == 0)
		return take_value(s->serial, sizeof(s->serial), word + 7) ? NULL : "no serial";
	if (strncmp(word, "user=", 5) == 0)
		return take_value(s->user, sizeof(s->user), word + 5) && ctl_account_ok(s->user)
			       ? NULL
			       : "not a user name";
	if (strncmp(word, "group=", 6) == 0)
		return take_value(s->group, sizeof(s->group), word + 6) && ctl_account_ok(s->group)
			       ? NULL
			       : "not a group name";
	return "known are serial=, user=, group= and forced";
}

/* Parses one line: returns the error, or NULL; *empty if the line is blank. */
static const char *take_line(char *line, struct ctl_saved *s, bool *empty)
{
	const char *problem = NULL;
	char *word = ctl_next_word(&line);

	*empty = !word || *word == '#';
	if (*empty)
		return NULL;
	*s = (struct ctl_saved){ 0 };
	if (strncmp(word, "pci:", 4) != 0 || ctl_pci_parse(word, s->pci))
		return "a line starts with a drive, such as pci:0000:01:00.0";
	while (!problem && (word = ctl_next_word(&line)))
		problem = take_word(s, word);
	return problem;
}

int ctl_saved_parse(char *text, size_t text_bytes, struct ctl_saved_list *out,
		    char why[CTL_WHY_SIZE])
{
	const char *problem = strlen(text) == text_bytes ? NULL : "it holds a NUL";
	uint32_t number = 0;
	char *line;

	*out = (struct ctl_saved_list){ 0 };
	while (!problem && (line = ctl_next_line(&text))) {
		struct ctl_saved s;
		bool empty;

		number++;
		problem = take_line(line, &s, &empty);
		if (problem || empty)
			continue;
		if (ctl_saved_find(out, s.pci))
			problem = "this drive twice";
		else if (out->count == CTL_DRIVES_LIMIT)
			problem = "too many drives";
		else
			ctl_saved_put(out, &s);
	}
	if (!problem)
		return 0;
	snprintf(why, CTL_WHY_SIZE, "%s:%u: %s", CTL_DRIVES_FILE, number, problem);
	free(out->drive);
	*out = (struct ctl_saved_list){ 0 };
	return -EINVAL;
}

static void print_value(FILE *to, const char *key, const char *value)
{
	if (!*value)
		return;
	fprintf(to, " %s=", key);
	for (; *value; value++)
		fprintf(to, *value <= ' ' || *value > '~' || *value == '%' ? "%%%02X" : "%c",
			(unsigned char)*value);
}

void ctl_saved_print(FILE *to, const struct ctl_saved *s)
{
	fprintf(to, "pci:%s", s->pci);
	print_value(to, "serial", s->serial);
	print_value(to, "user", s->user);
	print_value(to, "group", s->group);
	fprintf(to, "%s\n", s->forced ? " forced" : "");
}

/* ---- lists of them -------------------------------------------------------------------------- */

struct ctl_saved *ctl_saved_find(const struct ctl_saved_list *list, const char *pci)
{
	for (uint32_t i = 0; i < list->count; i++)
		if (strcmp(list->drive[i].pci, pci) == 0)
			return &list->drive[i];
	return NULL;
}

void ctl_saved_put(struct ctl_saved_list *list, const struct ctl_saved *s)
{
	struct ctl_saved *there = ctl_saved_find(list, s->pci);

	if (!there) {
		list->drive = realloc(list->drive, (list->count + 1) * sizeof(*list->drive));
		ASSERT(list->drive);
		there = &list->drive[list->count++];
	}
	*there = *s;
}

void ctl_saved_drop(struct ctl_saved_list *list, const char *pci)
{
	struct ctl_saved *there = ctl_saved_find(list, pci);

	if (there)
		*there = list->drive[--list->count];
}

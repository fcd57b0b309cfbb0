/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "appliance/ctl/ctl_print.h"

#include "base/assert.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns the bytes of the character at `s`, or 0 if it is not a character in UTF-8 or controls a
 * terminal: those below U+0020, and those from U+007F to U+009F. */
static uint32_t printable_bytes(const unsigned char *s)
{
	static const uint32_t least[] = { 0, 0x20, 0xa0, 0x800, 0x10000 };
	const uint32_t bytes = *s < 0x80 ? 1 : *s < 0xc0 ? 0 : *s < 0xe0 ? 2 : *s < 0xf0 ? 3 : 4;
	uint32_t c = bytes == 1 ? *s : *s & (0x7fu >> bytes);

	for (uint32_t i = 1; i < bytes; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	if (*s >= 0xf8 || c < least[bytes] || c == 0x7f || c > 0x10ffff)
		return 0;
	return c >= 0xd800 && c <= 0xdfff ? 0 : bytes;
}

void ctl_print_name(FILE *to, const char *name, bool escape)
{
	const unsigned char *s = (const unsigned char *)name;

	if (!escape) {
		fputs(name, to);
		return;
	}
	while (*s) {
		const uint32_t bytes = printable_bytes(s);

		if (*s == '\\')
			fputs("\\\\", to);
		else if (bytes)
			fwrite(s, 1, bytes, to);
		else
			fprintf(to, "\\%03o", *s);
		s += bytes ? bytes : 1;
	}
}

void ctl_print_path(const char *path)
{
	ctl_print_name(stdout, path, isatty(STDOUT_FILENO));
}

void ctl_json_print(json_t *o)
{
	char *text = o ? json_dumps(o, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;

	ASSERT(text);
	puts(text);
	free(text);
	json_decref(o);
}

json_t *ctl_json_name(const char *name)
{
	json_t *s = json_string(name);
	size_t length = strlen(name);
	char *escaped, *to;

	if (s)
		return s;
	escaped = to = malloc(4 * length + 1);
	ASSERT(escaped);
	for (size_t i = 0; i < length; i++)
		to += snprintf(to, 5, (unsigned char)name[i] < 0x80 ? "%c" : "\\x%02x",
			       (unsigned char)name[i]);
	s = json_string(escaped);
	free(escaped);
	return s;
}

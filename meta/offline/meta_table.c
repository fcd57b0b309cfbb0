/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Tables: for people columns under their names, for programs one JSON object a row.
 *
 *	SHARD  PLACE                    {"what":"root","shard":0,"place":"0:1"}
 *	    0  0:1
 *
 *  (1) The content of a cell may come from a drive: in text, bytes that are not printable become
 *      '?', in JSON they are escaped
 *      [test_meta_dump:json_is_an_object_a_line_and_escapes_what_a_drive_says].
 */
#include "meta/offline/meta_raw_internal.h"

#include <ctype.h>
#include <stdarg.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) static void put(struct meta__table *t, const char *fmt, ...)
{
	va_list args;
	int n;

	ASSERT(t->used < sizeof(t->line));
	va_start(args, fmt);
	n = vsnprintf(t->line + t->used, sizeof(t->line) - t->used, fmt, args);
	va_end(args);
	t->used = min_u64(t->used + (n > 0 ? (uint32_t)n : 0), sizeof(t->line) - 1);
	ASSERT(t->used < sizeof(t->line));
}

static void end_line(struct meta__table *t)
{
	while (t->used && t->line[t->used - 1] == ' ')
		t->used--;
	fprintf(t->out, "%.*s\n", (int)t->used, t->line);
	t->used = 0;
	ASSERT(t->used == 0);
}

static void put_padded(struct meta__table *t, const char *text, int width)
{
	ASSERT(!t->json);
	put(t, "%s%*s", t->used ? "  " : "", width, text);
}

void meta__table_begin(struct meta__table *t, const char *what, const struct meta__column *column)
{
	ASSERT(t->at == 0); /* the last row has all of its cells */
	ASSERT(column[0].name);
	t->what = what;
	t->column = column;
	t->at = 0;
	t->used = 0;
	if (t->json)
		return;
	if (t->any)
		fputc('\n', t->out);
	t->any = true;
	for (const struct meta__column *c = column; c->name; c++) {
		char head[64];
		size_t i = 0;

		for (; c->name[i] && i + 1 < sizeof(head); i++)
			head[i] = (char)(c->name[i] == '_' ? ' ' : toupper(c->name[i]));
		head[i] = 0;
		put_padded(t, head, c->width);
	}
	end_line(t);
}

/* Behind a cell. */
static void next(struct meta__table *t)
{
	ASSERT(t->column[t->at].name);
	if (t->column[++t->at].name)
		return;
	if (t->json)
		put(t, "}");
	end_line(t);
	t->at = 0;
}

static void json_key(struct meta__table *t)
{
	ASSERT(t->json);
	ASSERT(t->column[t->at].name);
	if (t->at == 0)
		put(t, "{\"what\":\"%s\"", t->what);
	put(t, ",\"%s\":", t->column[t->at].name);
}

void meta__cell(struct meta__table *t, uint64_t value)
{
	char text[24];

	ASSERT(t->column);
	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	if (t->json) {
		json_key(t);
		put(t, "%s", text);
	} else {
		put_padded(t, text, t->column[t->at].width);
	}
	next(t);
}

void meta__cell_text(struct meta__table *t, const char *fmt, ...)
{
	char text[6144];
	va_list args;

	ASSERT(t->column);
	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (!t->json) {
		for (char *c = text; *c; c++) /* (1) */
			if ((unsigned char)*c < ' ' || *c == 127)
				*c = '?';
		put_padded(t, text, t->column[t->at].width);
		next(t);
		return;
	}
	json_key(t);
	put(t, "\"");
	for (const char *c = text; *c; c++)
		if (*c == '"' || *c == '\\')
			put(t, "\\%c", *c);
		else if ((unsigned char)*c < ' ' || (unsigned char)*c >= 127)
			put(t, "\\u%04x", (unsigned char)*c);
		else
			put(t, "%c", *c);
	put(t, "\"");
	next(t);
}

void meta__cell_place(struct meta__table *t, uint64_t baddr)
{
	meta__cell_text(t, "%u:%llu", META_BADDR_DRIVE(baddr),
			(unsigned long long)META_BADDR_BLOCK(baddr));
}

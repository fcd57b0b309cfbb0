/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * FAB_LOG: a page of the last lines of the log, as JSON text, from the ring in memory (log_ring.h).
 * Any core reads it.
 *
 *  (1) A page ends where the longest line might not fit; "next" names the next line.
 */
#include "appliance/core/app_op.h"
#include "base/clock.h"
#include "base/log_ring.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { PAGE_BYTES = 32 << 10, LINE_MAX_BYTES = 6 * LOG_RING_TEXT + 256 };

static_assert(PAGE_BYTES > 4 * LINE_MAX_BYTES, "(1)");

static const char *const level_name[] = {
	[LOG_ERROR] = "error",
	[LOG_WARN] = "warning",
	[LOG_INFO] = "info",
	[LOG_DEBUG] = "debug",
};

/* Each byte that is not printable ASCII is one character \u00XX, as in app_damaged.c. */
static uint32_t put_text(char *out, const char *text)
{
	char *to = out;

	for (; *text; text++) {
		const unsigned char c = (unsigned char)*text;

		if (c < ' ' || c > '~' || c == '"' || c == '\\')
			to += snprintf(to, 7, "\\u%04x", c);
		else
			*to++ = (char)c;
	}
	return (uint32_t)(to - out);
}

static uint32_t put_line(char *out, const struct log_ring_line *line, bool first)
{
	char time[CLOCK_TEXT];
	uint32_t used;

	ASSERT(line->level >= LOG_ERROR && line->level <= LOG_DEBUG);
	clock_print_utc(time, line->wall_ns);
	used = (uint32_t)snprintf(out, LINE_MAX_BYTES,
				  "%s{\"number\":%llu,\"time\":\"%s\",\"level\":\"%s\",\"text\":\"",
				  first ? "" : ",", (unsigned long long)line->number, time,
				  level_name[line->level]);
	used += put_text(out + used, line->text);
	memcpy(out + used, "\"}", 2);
	ASSERT(used + 2 <= LINE_MAX_BYTES); /* (1) */
	return used + 2;
}

/* Lines from `from` on; returns the bytes of the text. */
static uint32_t put_page(char *out, struct log_ring *ring, uint64_t from)
{
	uint32_t used = (uint32_t)snprintf(out, PAGE_BYTES, "{\"lines\":[");
	struct log_ring_line line;
	bool first = true;

	while (used < PAGE_BYTES - 2 * LINE_MAX_BYTES && log_ring_get(ring, from, &line)) {
		used += put_line(out + used, &line, first);
		from = line.number + 1;
		first = false;
	}
	used += (uint32_t)snprintf(out + used, LINE_MAX_BYTES, "],\"next\":%llu}",
				   (unsigned long long)from);
	ASSERT(used <= PAGE_BYTES); /* (1) */
	return used;
}

void app_log_begin(struct app_op *op)
{
	ASSERT(op->names == 0);
	ASSERT(op->req->type == FAB_LOG || op->req->type == FAB_REPORT);
}

enum app_next app_log_step(struct app_op *op)
{
	struct log_ring *ring = log_kept();

	ASSERT(!op->sums);
	if (op->req->type == FAB_REPORT)
		return app_op_end(op, app_report_take(op));
	if (!ring)
		return app_op_end(op, -EOPNOTSUPP);
	op->sums = app_table_take(op->core, op->session, PAGE_BYTES);
	if (!op->sums)
		return app_op_end(op, -EAGAIN);
	op->sums_bytes = PAGE_BYTES;
	op->length_bytes = put_page((char *)op->sums, ring, op->req->args.page.from);
	return app_op_end(op, 0);
}

void app_log_answer(struct app_op *op)
{
	if (op->status || op->req->type == FAB_REPORT)
		fab_reply(op->req, op->status, NULL, 0);
	else
		app_text_answer(op, (const char *)op->sums, (uint32_t)op->length_bytes);
}

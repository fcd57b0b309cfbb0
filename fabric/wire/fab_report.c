/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A report of a job as bytes: fab_report.h. */
#include "fabric/fab_internal.h"
#include "fabric/fab_report.h"

#include <errno.h>
#include <string.h>

LAYOUT_BEGIN
struct fab_report_wire {
	le32 format;
	le32 rank;
	le32 world;
	le32 zero;
	le64 samples;
	le64 samples_total;
	le64 bytes;
	le64 open_ns;
	le64 waited_ns;
	char dataset[FAB_REPORT_DATASET];
	char verdict[FAB_REPORT_VERDICT];
};
LAYOUT_END
static_assert(sizeof(struct fab_report_wire) == FAB_REPORT_BYTES, "PROTOCOL.md 5");

/* Printable ASCII without the two characters that JSON escapes, then zeros. */
static bool text_ok(const char *text, uint32_t size)
{
	const uint32_t bytes = (uint32_t)strnlen(text, size);

	for (uint32_t i = 0; i < size; i++)
		if (i < bytes ? text[i] < ' ' || text[i] > '~' || text[i] == '"' || text[i] == '\\'
			      : text[i] != 0)
			return false;
	return bytes < size;
}

void fab_report_build(uint8_t body[FAB_REPORT_BYTES], const struct fab_report *r)
{
	struct fab_report_wire w = {
		.format = le32_of(FAB_REPORT_FORMAT),
		.rank = le32_of(r->rank),
		.world = le32_of(r->world),
		.samples = le64_of(r->samples),
		.samples_total = le64_of(r->samples_total),
		.bytes = le64_of(r->bytes),
		.open_ns = le64_of(r->open_ns),
		.waited_ns = le64_of(r->waited_ns),
	};

	ASSERT(text_ok(r->dataset, sizeof(r->dataset)));
	ASSERT(text_ok(r->verdict, sizeof(r->verdict)));
	memcpy(w.dataset, r->dataset, sizeof(w.dataset));
	memcpy(w.verdict, r->verdict, sizeof(w.verdict));
	memcpy(body, &w, sizeof(w));
}

int fab_report_parse(struct fab_report *out, const uint8_t body[FAB_REPORT_BYTES])
{
	struct fab_report_wire w;

	memcpy(&w, body, sizeof(w));
	if (le32_get(w.format) != FAB_REPORT_FORMAT)
		return -EOPNOTSUPP;
	if (!text_ok(w.dataset, sizeof(w.dataset)) || !text_ok(w.verdict, sizeof(w.verdict)))
		return -EPROTO;
	*out = (struct fab_report){
		.rank = le32_get(w.rank),
		.world = le32_get(w.world),
		.samples = le64_get(w.samples),
		.samples_total = le64_get(w.samples_total),
		.bytes = le64_get(w.bytes),
		.open_ns = le64_get(w.open_ns),
		.waited_ns = le64_get(w.waited_ns),
	};
	memcpy(out->dataset, w.dataset, sizeof(out->dataset));
	memcpy(out->verdict, w.verdict, sizeof(out->verdict));
	return 0;
}

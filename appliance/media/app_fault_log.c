/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The log's lines about failing drives.
 *
 *   error 1 .. APP_FAULT_FULL    a line each: drive, operation, blocks, NVMe status
 *   the others of this interval  counted; one line at its end
 *
 *  (1) Every error is reported: by its own line, or in a count.
 *  (2) A drive has at most APP_FAULT_FULL + 1 lines in INTERVAL_NS, besides lines about its
 *      failing or answering again.  After an interval that was full, the next one has fewer.
 */
#include "appliance/media/app_fault_log.h"

#include "base/clock.h"
#include "base/num.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define INTERVAL_NS (60 * NS_PER_S)
#define FULL_LATER  2u /* single lines in an interval that follows a full one */

static const char *const op_name[APP_FAULT_OPS] = {
	[APP_FAULT_READ] = "read",
	[APP_FAULT_WRITE] = "write",
	[APP_FAULT_FLUSH] = "flush",
};

struct text {
	char *to;
	size_t used;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *t, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(t->to + t->used, APP_FAULT_LINE - t->used, fmt, args);
	va_end(args);
	if (n > 0)
		t->used = min_u64(t->used + (size_t)n, APP_FAULT_LINE - 1);
}

static void put_drive(struct text *t, uint32_t d, char (*name)[APP_CONF_TEXT_MAX])
{
	ASSERT(d < META_DRIVES_MAX);
	put(t, "drive %u", d);
	if (name && name[d][0])
		put(t, " (%s)", name[d]);
	put(t, ": ");
}

static const char *type_name(uint32_t nvme_status)
{
	static const char *const names[8] = { "generic", "command specific", "media",
					      "path",    "unknown",          "unknown",
					      "unknown", "vendor specific" };

	return names[nvme_status >> 8 & 7];
}

/* Writes the drive's status, or the driver's error if the drive gave none. */
static void put_cause(struct text *t, const struct app_fault *f)
{
	ASSERT(f->nvme_status || f->err <= 0);
	if (f->nvme_status)
		put(t, "NVMe status type %xh (%s), code %02xh: %s", f->nvme_status >> 8 & 7,
		    type_name(f->nvme_status), f->nvme_status & 0xff,
		    nvme_status_text(f->nvme_status));
	else
		put(t, "no NVMe status, the driver ended it: %s", strerror(-f->err));
}

static void put_blocks(struct text *t, const struct app_fault *f)
{
	ASSERT(f->op < APP_FAULT_OPS);
	if (f->op == APP_FAULT_FLUSH)
		return;
	put(t, " of block %llu", (unsigned long long)f->block);
	if (f->nblocks > 1)
		put(t, " to %llu", (unsigned long long)(f->block + f->nblocks - 1));
}

/* ---- counts ------------------------------------------------------------------------------- */

/* Errors that no line has reported. */
static uint64_t untold(const struct app_fault_log *log, const struct app_faults *faults,
		       uint32_t cores, uint32_t d, uint32_t op)
{
	const uint64_t said = log->drive[d].said[op];
	uint64_t all = 0;

	ASSERT(d < META_DRIVES_MAX && op < APP_FAULT_OPS);
	for (uint32_t i = 0; i < cores; i++)
		all += atomic_load_explicit(&faults[i].count[d][op], memory_order_relaxed);
	return all > said ? all - said : 0;
}

static bool any_untold(const struct app_fault_log *log, const struct app_faults *faults,
		       uint32_t cores, uint32_t d)
{
	ASSERT(cores > 0 && cores <= APP_CORES_MAX);
	for (uint32_t op = 0; op < APP_FAULT_OPS; op++)
		if (untold(log, faults, cores, d, op))
			return true;
	return false;
}

/* The ids of lines: weka-messages(7). */
static const char *id_of(enum app_fault_what what)
{
	switch (what) {
	case APP_FAULT_FAILED:
		return "WEKA-201: ";
	case APP_FAULT_ANSWERS:
		return "WEKA-202: ";
	case APP_FAULT_NO_WRITES:
		return "WEKA-203: ";
	case APP_FAULT_TAKES_WRITES:
		return "WEKA-204: ";
	case APP_FAULT_IO:
		return "WEKA-205: ";
	}
	UNREACHABLE();
}

/* ---- single lines ------------------------------------------------------------------------- */

static void put_event(struct text *t, const struct app_fault *f)
{
	ASSERT(f->what != APP_FAULT_IO);
	switch ((enum app_fault_what)f->what) {
	case APP_FAULT_FAILED:
		put(t, "has failed: nothing can be read from it; files that lie there cannot be "
		       "read (wekactl damaged lists them).  Check its power, its cabling and its "
		       "slot: it is used again by itself when it answers");
		return;
	case APP_FAULT_ANSWERS:
		put(t, "answers again and is in use again");
		return;
	case APP_FAULT_NO_WRITES:
		put(t, "has failed: it refuses all writes.  Check its space and its health "
		       "(wekactl drives); what is there can still be read");
		return;
	case APP_FAULT_TAKES_WRITES:
		put(t, "takes writes again");
		return;
	case APP_FAULT_IO:
		break;
	}
	UNREACHABLE();
}

static void put_error(struct text *t, const struct app_fault *f, bool last)
{
	ASSERT(f->what == APP_FAULT_IO && f->op < APP_FAULT_OPS);
	put(t, "%s%s", f->store ? "the store's " : "", op_name[f->op]);
	put_blocks(t, f);
	put(t, " failed: ");
	put_cause(t, f);
	if (last)
		put(t, " (further errors of this drive are counted, in one line a minute)");
}

/* Returns true if it wrote a line about the fault. */
static bool tell(struct app_fault_log *log, const struct app_fault *f, uint64_t now_ns,
		 struct text *t, char (*name)[APP_CONF_TEXT_MAX])
{
	ASSERT(f->drive < META_DRIVES_MAX);
	if (f->what != APP_FAULT_IO) {
		put(t, "%s", id_of((enum app_fault_what)f->what));
		put_drive(t, f->drive, name);
		put_event(t, f);
		return true;
	}
	log->drive[f->drive].last = *f;
	if (now_ns - log->drive[f->drive].from_ns >= INTERVAL_NS) {
		log->drive[f->drive].from_ns = now_ns;
		log->drive[f->drive].told = 0; /* the last interval was not full */
	}
	if (log->drive[f->drive].told == APP_FAULT_FULL)
		return false;
	log->drive[f->drive].told++;
	ASSERT(log->drive[f->drive].told <= APP_FAULT_FULL); /* (2) */
	put(t, "%s", id_of(APP_FAULT_IO));
	put_drive(t, f->drive, name);
	put_error(t, f, log->drive[f->drive].told == APP_FAULT_FULL);
	return true;
}

static void put_counts(struct text *t, struct app_fault_log *log, struct app_faults *faults,
		       uint32_t cores, uint32_t d)
{
	const char *between = "";

	for (uint32_t op = 0; op < APP_FAULT_OPS; op++) {
		const uint64_t n = untold(log, faults, cores, d, op);

		if (n == 0)
			continue;
		ASSERT(n > 0); /* (1) */
		log->drive[d].said[op] += n;
		put(t, "%s%llu more %s%s", between, (unsigned long long)n, op_name[op],
		    n == 1                  ? ""
		    : op == APP_FAULT_FLUSH ? "es"
					    : "s");
		between = ", ";
	}
	put(t, " failed; the last one: %s", op_name[log->drive[d].last.op]);
	put_blocks(t, &log->drive[d].last);
	put(t, ", ");
	put_cause(t, &log->drive[d].last);
}

/* A count is due: of drives whose interval was full, or of any. */
static bool tell_counts(struct app_fault_log *log, struct app_faults *faults, uint32_t cores,
			uint64_t now_ns, bool full, struct text *t, char (*name)[APP_CONF_TEXT_MAX])
{
	ASSERT(cores > 0 && cores <= APP_CORES_MAX);
	for (uint32_t d = 0; d < META_DRIVES_MAX; d++) {
		if (now_ns - log->drive[d].from_ns < INTERVAL_NS ||
		    (full && log->drive[d].told < APP_FAULT_FULL) ||
		    !any_untold(log, faults, cores, d))
			continue;
		log->drive[d].from_ns = now_ns;
		log->drive[d].told = APP_FAULT_FULL - FULL_LATER; /* (2) */
		put(t, "WEKA-206: ");
		put_drive(t, d, name);
		put_counts(t, log, faults, cores, d);
		return true;
	}
	return false;
}

bool app_fault_log_line(struct app_fault_log *log, struct app_faults *faults, uint32_t cores,
			char (*name)[APP_CONF_TEXT_MAX], uint64_t now_ns, char text[APP_FAULT_LINE])
{
	struct text t = { .to = text };
	struct app_fault f;

	ASSERT(cores > 0 && cores <= APP_CORES_MAX);
	text[0] = '\0';
	if (tell_counts(log, faults, cores, now_ns, true, &t, name))
		return true;
	for (uint32_t i = 0; i < cores; i++)
		while (app_faults_take(&faults[i], &f)) {
			/* A reported count may include it already: then it is reported twice. */
			const bool counted = !untold(log, faults, cores, f.drive, f.op);

			if (!tell(log, &f, now_ns, &t, name))
				continue;
			log->drive[f.drive].said[f.op] += f.what == APP_FAULT_IO && !counted;
			return true;
		}
	/* Drives whose records had no room in the ring. */
	return tell_counts(log, faults, cores, now_ns, false, &t, name);
}

uint64_t app_fault_log_deadline(const struct app_fault_log *log, const struct app_faults *faults,
				uint32_t cores)
{
	uint64_t at_ns = UINT64_MAX;

	ASSERT(cores > 0 && cores <= APP_CORES_MAX);
	for (uint32_t d = 0; d < META_DRIVES_MAX; d++)
		if (any_untold(log, faults, cores, d))
			at_ns = min_u64(at_ns, log->drive[d].from_ns + INTERVAL_NS);
	return at_ns;
}

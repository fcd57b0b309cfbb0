/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Events: commands that the controller completes when it has something to report.
 *
 *   wait[]:  new --submit--> flying --event--> done: note which page to read --> new
 *
 *   read:    a bit of `wanted` --> its log page --> done: report to people, check our namespace
 *
 * Reading a log page allows the same kind of event again (base 5.2): the controller holds it back
 * until then.  Health is also read without an event, slowly, and only while the drive's owner is
 * awake: there is no timer.
 *
 * Invariants, true between any two steps:
 *
 *  (1) `reading` says what `read` is for; it has a page exactly while it is flying.
 *  (2) The log's content is foreign: it is reported to people and compared, and changes no limit
 *      [test_nvme_event:unknown_events_and_logs_do_no_harm].
 */
#include "nvme/nvme_internal.h"
#include "nvme/nvme_events.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define HEALTH_EVERY_NS (60 * NS_PER_S)
#define LOG_BYTES       512u

static void want(struct nvme_events *e, enum nvme_reading what)
{
	ASSERT(what < NVME_READINGS);
	e->wanted |= 1u << what;
}

/* ---- hearing ---------------------------------------------------------------------------- */

static void want_log(struct nvme_events *e, uint32_t log_id)
{
	switch (log_id) {
	case 0:
		return;
	case NVME_LOG_ERROR:
		want(e, NVME_READING_ERROR);
		return;
	case NVME_LOG_HEALTH:
		want(e, NVME_READING_HEALTH);
		return;
	case NVME_LOG_FIRMWARE:
		want(e, NVME_READING_FIRMWARE);
		return;
	case NVME_LOG_CHANGED_NS:
		want(e, NVME_READING_CHANGED);
		return;
	default:
		e->other_log = log_id;
		want(e, NVME_READING_OTHER);
	}
}

static void hear(struct nvme_drive *drive, uint32_t result)
{
	struct nvme_events *e = &drive->events;

	e->event_count++;
	want_log(e, NVME_EVENT_LOG(result));
	if (NVME_EVENT_TYPE(result) == NVME_EVENT_NOTICE &&
	    NVME_EVENT_INFO(result) == NVME_NOTICE_FIRMWARE)
		nvme__tell(drive, "new firmware is being activated: I/O may pause");
}

static void listen(struct nvme_drive *drive, uint32_t i)
{
	struct nvme_events *e = &drive->events;
	struct nvme_admin_cmd *cmd = &e->wait[i];

	ASSERT(!cmd->has_page);
	if (cmd->state == NVME_ADMIN_FLYING || e->off[i])
		return;
	if (cmd->state == NVME_ADMIN_DONE && cmd->err == 0)
		hear(drive, cmd->result);
	else if (cmd->state == NVME_ADMIN_DONE && cmd->err != -ECANCELED)
		e->off[i] = true; /* it takes fewer event commands, or none */
	if (e->off[i])
		return;
	*cmd = (struct nvme_admin_cmd){ .sqe = { .opcode = NVME_ADMIN_ASYNC_EVENT },
					.deadline_ns = UINT64_MAX };
	(void)!nvme__admin_submit(drive, cmd); /* no room or no drive: later, or never */
}

/* ---- reading ------------------------------------------------------------------------------ */

static struct nvme_sqe sqe_of(const struct nvme_drive *drive, enum nvme_reading what)
{
	switch (what) {
	case NVME_READING_HEALTH:
		return nvme__sqe_get_log(NVME_LOG_HEALTH, NVME_NSID_ALL, LOG_BYTES);
	case NVME_READING_ERROR:
		return nvme__sqe_get_log(NVME_LOG_ERROR, NVME_NSID_ALL,
					 sizeof(struct nvme_log_error));
	case NVME_READING_FIRMWARE:
		return nvme__sqe_get_log(NVME_LOG_FIRMWARE, NVME_NSID_ALL, LOG_BYTES);
	case NVME_READING_CHANGED:
		return nvme__sqe_get_log(NVME_LOG_CHANGED_NS, NVME_NSID_ALL, NVME_PAGE_SIZE);
	case NVME_READING_NAMESPACE:
		return nvme__sqe_identify(NVME_CNS_NAMESPACE, drive->events.nsid);
	default:
		return nvme__sqe_get_log(drive->events.other_log, NVME_NSID_ALL, LOG_BYTES);
	}
}

static struct nvme_drive *changed_ns(struct nvme_drive *drive)
{
	struct nvme_drive *ns = nvme__first_ns(drive);

	while (ns && !ns->share.changed)
		ns = nvme__next_ns(ns);
	return ns;
}

/* Returns the namespace that was read, unless it has been closed since. */
static struct nvme_drive *read_ns(struct nvme_drive *drive)
{
	struct nvme_drive *ns = nvme__first_ns(drive);

	while (ns && ns->nsid != drive->events.nsid)
		ns = nvme__next_ns(ns);
	return ns;
}

/* Chooses the namespace that is read next; false: none has changed. */
static bool choose_ns(struct nvme_drive *drive)
{
	struct nvme_drive *ns = changed_ns(drive);

	if (ns)
		drive->events.nsid = ns->nsid;
	else
		drive->events.wanted &= ~(1u << NVME_READING_NAMESPACE);
	return ns;
}

static void begin_reading(struct nvme_drive *drive, uint64_t now_ns)
{
	struct nvme_events *e = &drive->events;
	uint32_t what = NVME_READING_NOTHING + 1;
	ASSERT(e->reading == NVME_READING_NOTHING); /* (1) */

	while (!(e->wanted >> what & 1))
		what++;
	ASSERT(what < NVME_READINGS);
	if (what == NVME_READING_NAMESPACE && !choose_ns(drive))
		return;
	e->read = (struct nvme_admin_cmd){ .sqe = sqe_of(drive, what),
					   .deadline_ns = now_ns + drive->timeout_ns };
	if (nvme__admin_page_take(drive, &e->read))
		return; /* later */
	if (nvme__admin_submit(drive, &e->read)) {
		nvme__admin_page_give(drive, &e->read);
		return;
	}
	e->wanted &= ~(1u << what);
	e->reading = what;
	ASSERT(e->read.state == NVME_ADMIN_FLYING && e->read.has_page); /* (1) */
}

static void health_is_read(struct nvme_drive *drive, const void *page)
{
	struct nvme_events *e = &drive->events;
	char text[128];

	nvme__read_health(&e->smart, page);
	e->smart_known = true;
	while (nvme__health_line(&e->told, &e->smart, text, sizeof(text)))
		nvme__tell(drive, "%s", text);
}

static void error_is_read(struct nvme_drive *drive, const struct nvme_log_error *log)
{
	uint32_t status = le16_get(log->status) >> 1 & NVME_STATUS_MASK;

	if (le64_get(log->count) == 0)
		return;
	nvme__tell(drive, "the controller reports error %llu: %s (%03x), queue %u, LBA %llu",
		   (unsigned long long)le64_get(log->count), nvme__status_text(status), status,
		   le16_get(log->qid), (unsigned long long)le64_get(log->lba));
}

static void firmware_is_read(struct nvme_drive *drive, const struct nvme_log_firmware *log)
{
	uint32_t slot = log->active & 7;
	char text[9];

	if (slot == 0)
		return;
	nvme__copy_text(text, log->revision[slot - 1], 8);
	nvme__tell(drive, "its firmware is %s, in slot %u", text, slot);
}

/* Returns true if the list names the namespace, or was too short to name it. */
static bool names(const struct nvme_drive *ns, const le32 *list)
{
	for (uint32_t i = 0; i < NVME_PAGE_SIZE / sizeof(*list); i++) {
		uint32_t nsid = le32_get(list[i]);

		if (nsid == ns->nsid || nsid == NVME_NSID_ALL)
			return true;
		if (nsid == 0)
			return false;
	}
	return false;
}

static void changed_is_read(struct nvme_drive *drive, const le32 *list)
{
	ASSERT(nvme__first_ns(drive)); /* else it would be closed */
	for (struct nvme_drive *ns = nvme__first_ns(drive); ns; ns = nvme__next_ns(ns))
		ns->share.changed |= names(ns, list);
	if (changed_ns(drive))
		want(&drive->events, NVME_READING_NAMESPACE);
}

static void namespace_vanished(struct nvme_drive *drive)
{
	drive->events.lost_namespace = true;
	nvme__tell(drive, "namespace %u has vanished", drive->events.nsid);
}

static void compare(struct nvme_drive *drive, const struct nvme_drive *ns,
		    const struct nvme_found *found)
{
	const unsigned long long had = ns->info.nblocks, has = found->info.nblocks;

	ASSERT(found->nsid == ns->nsid);
	if (has < had || found->lba_shift != ns->lba_shift) {
		drive->events.lost_namespace = true;
		nvme__tell(drive,
			   "namespace %u has changed: %llu blocks with LBAs of %u bytes, now "
			   "%llu of %u",
			   ns->nsid, had, ns->info.lba_bytes, has, found->info.lba_bytes);
	} else if (has > had) {
		nvme__tell(drive, "namespace %u has grown from %llu blocks to %llu: not used yet",
			   ns->nsid, had, has);
	}
}

static void namespace_is_read(struct nvme_drive *drive, const struct nvme_id_ns *id)
{
	struct nvme_drive *ns = read_ns(drive);
	struct nvme_found found;
	char text[NVME_UP_TEXT];

	if (!ns)
		return;
	found = (struct nvme_found){ .info = ns->info, .nsid = ns->nsid };
	if (le64_get(id->size_lbas) == 0) {
		namespace_vanished(drive); /* an inactive one reads as zeroes */
		return;
	}
	if (nvme__read_namespace(&found, id, text, sizeof(text))) {
		drive->events.lost_namespace = true;
		nvme__tell(drive, "namespace %u has changed: %s", ns->nsid, text);
		return;
	}
	compare(drive, ns, &found);
}

static void digest(struct nvme_drive *drive, enum nvme_reading what, const void *page)
{
	switch (what) {
	case NVME_READING_HEALTH:
		health_is_read(drive, page);
		return;
	case NVME_READING_ERROR:
		error_is_read(drive, page);
		return;
	case NVME_READING_FIRMWARE:
		firmware_is_read(drive, page);
		return;
	case NVME_READING_CHANGED:
		changed_is_read(drive, page);
		return;
	case NVME_READING_NAMESPACE:
		namespace_is_read(drive, page);
		return;
	default:
		return;
	}
}

static void end_reading(struct nvme_drive *drive)
{
	struct nvme_events *e = &drive->events;
	enum nvme_reading what = e->reading;
	struct nvme_drive *ns = read_ns(drive);

	ASSERT(what != NVME_READING_NOTHING); /* (1) */
	ASSERT(e->read.state == NVME_ADMIN_DONE || e->read.state == NVME_ADMIN_LOST);
	e->reading = NVME_READING_NOTHING;
	if (what == NVME_READING_NAMESPACE && ns)
		ns->share.changed = e->read.err == -ECANCELED; /* then it is read again */
	if (e->read.state == NVME_ADMIN_LOST)
		return; /* its page is not ours (nvme_admin.c (2)) */
	if (e->read.err == 0)
		digest(drive, what, nvme__admin_page(drive, e->read.page));
	else if (e->read.err == -ECANCELED)
		want(e, what); /* a reset was in between */
	else if (what == NVME_READING_NAMESPACE && e->read.status == NVME_SC_INVALID_NAMESPACE &&
		 ns)
		namespace_vanished(drive);
	if (what == NVME_READING_NAMESPACE && changed_ns(drive))
		want(e, what);
	nvme__admin_page_give(drive, &e->read);
}

void nvme__events_step(struct nvme_drive *drive, uint64_t now_ns)
{
	struct nvme_events *e = &drive->events;
	uint32_t count = min_u32(drive->event_commands, NVME_EVENTS_MAX);

	ASSERT(nvme__helm_taken(drive));
	ASSERT(drive->reset.life == NVME_LIVE);
	for (uint32_t i = 0; i < count; i++)
		listen(drive, i);
	if (e->reading && e->read.state != NVME_ADMIN_FLYING)
		end_reading(drive);
	if (now_ns >= e->next_health_ns) {
		e->next_health_ns = now_ns + HEALTH_EVERY_NS;
		want(e, NVME_READING_HEALTH);
	}
	if (!e->reading && e->wanted)
		begin_reading(drive, now_ns);
}

bool nvme_drive_smart(struct nvme_drive *ns, struct nvme_smart *smart)
{
	struct nvme_drive *drive = ns->share.ctl;
	bool known;

	nvme__helm_take(drive);
	*smart = drive->events.smart;
	known = drive->events.smart_known;
	nvme__helm_leave(drive);
	return known;
}

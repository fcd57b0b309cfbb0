/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Registers as messages, so that no polling thread waits for a server.
 *
 *   write   --> queue of writes --> socket                    without a reply
 *   ask     --> all writes sent --> question sent -- -EAGAIN --> answered: 0
 *                                       \-- too late: the connection is broken: all ones
 *
 * A server serves the messages of a socket in order: a question after a write is answered by a
 * device that has seen the write.  A write that does not arrive, or is refused, shows in CSTS, like
 * one on a bus.
 *
 * Invariants, true between any two calls:
 *
 *  (1) Writes and the question are for the connection of regs.life; older ones are forgotten
 *      [test_nvme_vfu_parse:writes_for_a_connection_that_is_gone_are_not_sent_to_the_next].
 *  (2) An open question was asked after the last write.
 */
#include "nvme/pci/nvme_vfu.h"
#include "nvme/mmio.h"

#include "base/clock.h"

#include <errno.h>
#include <string.h>

/* Returns the address of a mapped register, or NULL: nearly all servers must see accesses. */
static void *mapped_at(const struct nvme_vfu *vfu, uint32_t offset, uint32_t size_bytes)
{
	for (uint32_t i = 0; i < vfu->map_count; i++) {
		const struct nvme_vfu_mapping *m = &vfu->map[i];

		if (offset >= m->offset && offset + size_bytes <= m->offset + m->size_bytes)
			return m->addr + (offset - m->offset);
	}
	return NULL;
}

static uint64_t mapped_value(const void *at, uint32_t size_bytes)
{
	return size_bytes == 8 ? *(const volatile uint64_t *)at : mmio_read32(at); /* MMIO */
}

/* (1) */
static void follow_connection(struct nvme_vfu *vfu)
{
	uint32_t life = atomic_load_explicit(&vfu->conn.life, memory_order_relaxed);

	if (vfu->regs.life == life)
		return;
	vfu->regs.life = life;
	vfu->regs.write_count = 0;
	vfu->regs.wanted = false;
}

static int post(struct nvme_vfu *vfu, const struct nvme_vfu_write *w)
{
	struct vfu_region_rw rw = { le64_of(w->offset), le32_of(VFU_REGION_BAR0),
				    le32_of(w->size_bytes) };
	struct nvme_vfu_call call = { .command = VFU_REGION_WRITE,
				      .head = &rw,
				      .head_bytes = sizeof(rw),
				      .data = &w->value,
				      .data_bytes = w->size_bytes };

	return nvme__vfu_post(&vfu->conn, &call);
}

/* Returns true if all writes were sent. */
static bool send_writes(struct nvme_vfu *vfu)
{
	struct nvme_vfu_regs *r = &vfu->regs;
	uint32_t sent = 0;

	while (sent < r->write_count && post(vfu, &r->write[sent]) == 0)
		sent++;
	r->write_count -= sent;
	memmove(r->write, r->write + sent, r->write_count * sizeof(r->write[0]));
	return r->write_count == 0;
}

void nvme__vfu_reg_write(struct nvme_vfu *vfu, uint32_t offset, uint32_t size_bytes, uint64_t value)
{
	struct nvme_vfu_regs *r = &vfu->regs;
	void *at = mapped_at(vfu, offset, size_bytes);

	follow_connection(vfu);
	if (!nvme__vfu_is_live(vfu))
		return;
	if (at && size_bytes == 8) {
		*(volatile uint64_t *)at = value; /* MMIO */
		return;
	}
	if (at) {
		mmio_write32(at, (uint32_t)value);
		return;
	}
	r->wanted = false; /* (2) */
	if (r->write_count == NVME_VFU_WRITES_MAX) {
		nvme__vfu_conn_break(&vfu->conn, "its server does not listen");
		return;
	}
	r->write[r->write_count++] = (struct nvme_vfu_write){ offset, size_bytes, value };
	(void)send_writes(vfu); /* the rest goes before the next question */
}

static bool send_question(struct nvme_vfu *vfu)
{
	struct nvme_vfu_regs *r = &vfu->regs;
	struct vfu_region_rw rw = { le64_of(r->offset), le32_of(VFU_REGION_BAR0),
				    le32_of(r->size_bytes) };
	struct nvme_vfu_call call = { .command = VFU_REGION_READ,
				      .head = &rw,
				      .head_bytes = sizeof(rw) };

	return send_writes(vfu) && nvme__vfu_ask(&vfu->conn, &call) == 0;
}

/* The value, or all ones: it was refused. */
static uint64_t take_value(struct nvme_vfu *vfu)
{
	const struct nvme_vfu_asked *a = &vfu->conn.asked;
	struct nvme_vfu_regs *r = &vfu->regs;
	struct vfu_region_rw rw = { le64_of(r->offset), le32_of(VFU_REGION_BAR0),
				    le32_of(r->size_bytes) };
	uint64_t value = UINT64_MAX;
	const uint8_t *data;
	const char *wrong;

	r->wanted = false;
	if (!a->err) {
		wrong = nvme__vfu_parse_rw(a->body, a->body_bytes, &rw, &data);
		if (wrong) {
			nvme__vfu_conn_break(&vfu->conn, wrong);
		} else {
			value = 0;
			memcpy(&value, data, r->size_bytes);
		}
	}
	nvme__vfu_unask(&vfu->conn);
	return value;
}

int nvme__vfu_reg_ask(struct nvme_vfu *vfu, uint32_t offset, uint32_t size_bytes, uint64_t *value)
{
	struct nvme_vfu_regs *r = &vfu->regs;
	void *at = mapped_at(vfu, offset, size_bytes);
	uint64_t now_ns = clock_now_ns();

	*value = UINT64_MAX;
	follow_connection(vfu);
	if (!nvme__vfu_is_live(vfu))
		return 0;
	if (at) {
		*value = mapped_value(at, size_bytes);
		return 0;
	}
	if (!r->wanted || r->offset != offset || r->size_bytes != size_bytes) {
		r->wanted = true;
		r->sent = false;
		r->offset = offset;
		r->size_bytes = size_bytes;
		r->since_ns = now_ns;
	}
	if (!r->sent)
		r->sent = send_question(vfu);
	ASSERT(!r->sent || r->write_count == 0); /* (2) */
	(void)!nvme__vfu_look(&vfu->conn);       /* a connection that is gone is seen below */
	if (r->sent && nvme__vfu_answered(&vfu->conn)) {
		*value = take_value(vfu);
		return 0;
	}
	if (!nvme__vfu_is_live(vfu))
		return 0;
	if (now_ns - r->since_ns < vfu->conn.timeout_ns)
		return -EAGAIN;
	nvme__vfu_conn_break(&vfu->conn, "its server does not answer");
	return 0;
}

uint64_t nvme__vfu_reg_read(struct nvme_vfu *vfu, uint32_t offset, uint32_t size_bytes)
{
	struct nvme_vfu_regs *r = &vfu->regs;
	void *at = mapped_at(vfu, offset, size_bytes);
	uint64_t value;

	follow_connection(vfu);
	if (!nvme__vfu_is_live(vfu))
		return UINT64_MAX;
	if (at)
		return mapped_value(at, size_bytes);
	for (uint32_t i = 0; i < r->write_count; i++) /* what fails is seen by the read */
		(void)!nvme__vfu_write(vfu, VFU_REGION_BAR0, r->write[i].offset,
				       r->write[i].size_bytes, r->write[i].value);
	r->write_count = 0;
	/* A failed read returns all ones, as on a bus. */
	(void)!nvme__vfu_read(vfu, VFU_REGION_BAR0, offset, size_bytes, &value);
	return value;
}

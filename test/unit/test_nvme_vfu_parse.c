/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Parses answers of a vfio-user server: good ones, and every kind of bad one. */
#include "nvme/pci/nvme_vfu.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

Test(nvme_vfu_parse, heads_with_impossible_sizes_or_types_are_refused)
{
	struct vfu_header h = { .id = le16_of(3), .command = le16_of(9), .size = le32_of(16) };
	struct nvme_vfu_head out;

	h.flags = le32_of(VFU_TYPE_REPLY);
	cr_assert_null(nvme__vfu_parse_head((void *)&h, &out));
	cr_assert(out.reply && out.id == 3 && out.command == 9 && out.body_bytes == 0 && !out.err);
	h.flags = le32_of(VFU_TYPE_REPLY | VFU_ERROR);
	cr_assert_null(nvme__vfu_parse_head((void *)&h, &out));
	cr_assert_eq(out.err, -EIO, "an error without a number");
	h.error = le32_of(EEXIST);
	cr_assert_null(nvme__vfu_parse_head((void *)&h, &out));
	cr_assert_eq(out.err, -EEXIST);
	h.error = le32_of(0x80000000u);
	cr_assert_null(nvme__vfu_parse_head((void *)&h, &out));
	cr_assert_eq(out.err, -EIO);
	h.size = le32_of(15);
	cr_assert(nvme__vfu_parse_head((void *)&h, &out));
	h.size = le32_of(16 + NVME_VFU_BODY_MAX + 1);
	cr_assert(nvme__vfu_parse_head((void *)&h, &out));
	h.size = le32_of(16);
	h.flags = le32_of(2);
	cr_assert(nvme__vfu_parse_head((void *)&h, &out));
}

static const char *version(uint32_t major, uint32_t minor, const char *json,
			   struct nvme_vfu_caps *out)
{
	uint8_t body[256];
	struct vfu_version v = { le16_of((uint16_t)major), le16_of((uint16_t)minor) };
	size_t size = json ? strlen(json) + 1 : 0;

	memcpy(body, &v, sizeof(v));
	if (json)
		memcpy(body + sizeof(v), json, size);
	return nvme__vfu_parse_version(body, (uint32_t)(sizeof(v) + size), out);
}

Test(nvme_vfu_parse, versions_and_capabilities)
{
	static const char *const wrong[] = {
		"",
		"[]",
		"{",
		"{\"capabilities\":[]}",
		"{\"capabilities\":{\"max_msg_fds\":0}}",
		"{\"capabilities\":{\"max_msg_fds\":-1}}",
		"{\"capabilities\":{\"max_data_xfer_size\":\"many\"}}",
		"{\"capabilities\":{\"max_dma_maps\":1.5}}",
	};
	struct nvme_vfu_caps caps;

	cr_assert_null(version(0, 1, NULL, &caps));
	cr_assert(caps.msg_fds_max == 1 && caps.xfer_max == 1048576 && caps.dma_maps_max == 65535);
	cr_assert_null(version(0, 0, "{}", &caps));
	cr_assert_null(version(0, 0, "{\"capabilities\":{\"max_msg_fds\":8,\"more\":[1]}}", &caps));
	cr_assert_eq(caps.msg_fds_max, 8);
	cr_assert(version(1, 0, NULL, &caps));
	cr_assert(version(0, 2, NULL, &caps), "newer than what was proposed");
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
		cr_assert(version(0, 1, wrong[i], &caps), "%s", wrong[i]);
}

struct region_reply {
	struct vfu_region_info info;
	struct vfu_cap_sparse sparse;
	struct vfu_area area[2];
};

static struct region_reply good_region(void)
{
	struct region_reply r = { .info = { .argsz = le32_of(sizeof(r)),
					    .index = le32_of(VFU_REGION_BAR0),
					    .cap_offset = le32_of(sizeof(r.info)),
					    .size = le64_of(0x8000),
					    .fd_offset = le64_of(0x10000) },
				  .sparse = { .cap = { .id = le16_of(VFU_CAP_SPARSE_MMAP),
						       .version = le16_of(1) },
					      .area_count = le32_of(2) },
				  .area = { { le64_of(0x1000), le64_of(0x1000) },
					    { le64_of(0x4000), le64_of(0x4000) } } };

	r.info.flags = le32_of(VFU_REGION_READABLE | VFU_REGION_WRITABLE | VFU_REGION_MMAP |
			       VFU_REGION_CAPS);
	return r;
}

static const char *parse(const struct region_reply *r, uint32_t size, struct nvme_vfu_region *out)
{
	return nvme__vfu_parse_region((const void *)r, size, VFU_REGION_BAR0, out);
}

Test(nvme_vfu_parse, regions_and_the_parts_of_them_that_can_be_mapped)
{
	struct region_reply r = good_region();
	struct nvme_vfu_region out;

	cr_assert_null(parse(&r, sizeof(r), &out));
	cr_assert(out.readable && out.writable && out.size_bytes == 0x8000);
	cr_assert(out.area_count == 2 && out.area[1].offset == 0x4000);
	for (uint32_t size = 0; size < sizeof(r); size++)
		cr_assert(parse(&r, size, &out), "%u bytes of it", size);

	r.area[0].offset = le64_of(0x800); /* inside a page: goes by messages */
	cr_assert_null(parse(&r, sizeof(r), &out));
	cr_assert_eq(out.area_count, 1);
	r = good_region();
	r.info.flags = le32_of(le32_get(r.info.flags) & ~VFU_REGION_CAPS); /* all of it */
	cr_assert_null(parse(&r, sizeof(r.info), &out));
	cr_assert(out.area_count == 1 && out.area[0].size_bytes == 0x8000);
	r.info.flags = le32_of(VFU_REGION_READABLE);
	cr_assert_null(parse(&r, sizeof(r.info), &out));
	cr_assert(out.area_count == 0 && !out.writable);
}

Test(nvme_vfu_parse, regions_that_make_no_sense)
{
	struct region_reply r = good_region();
	struct nvme_vfu_region out;

	r.info.index = le32_of(1);
	cr_assert(parse(&r, sizeof(r), &out));
	r = good_region();
	r.area[1].size = le64_of(0x5000);
	cr_assert(parse(&r, sizeof(r), &out), "beyond the region");
	r.area[1].size = le64_of(UINT64_MAX - 0xfff);
	cr_assert(parse(&r, sizeof(r), &out), "around the end of all numbers");
	r = good_region();
	r.sparse.area_count = le32_of(UINT32_MAX);
	cr_assert(parse(&r, sizeof(r), &out));
	r = good_region();
	r.sparse.cap.next = le32_of(sizeof(r.info)); /* a circle */
	cr_assert(parse(&r, sizeof(r), &out));
	r.sparse.cap.next = le32_of(8); /* into the info */
	cr_assert(parse(&r, sizeof(r), &out));
	r = good_region();
	r.info.fd_offset = le64_of(INT64_MAX);
	cr_assert(parse(&r, sizeof(r), &out));
	r = good_region();
	r.info.argsz = le32_of(1 << 20);
	cr_assert(parse(&r, sizeof(r), &out));
}

Test(nvme_vfu_parse, answers_to_register_accesses_are_those_asked_for)
{
	struct {
		struct vfu_region_rw rw;
		uint8_t data[8];
	} reply = { .rw = { le64_of(0x1c), le32_of(0), le32_of(4) } };
	struct vfu_region_rw asked = reply.rw;
	const uint8_t *data = NULL;

	cr_assert_null(nvme__vfu_parse_rw((void *)&reply, 20, &asked, &data));
	cr_assert_eq(data, reply.data);
	cr_assert(nvme__vfu_parse_rw((void *)&reply, 19, &asked, &data));
	cr_assert(nvme__vfu_parse_rw((void *)&reply, 24, &asked, &data));
	cr_assert_null(nvme__vfu_parse_rw((void *)&reply, 16, &asked, NULL));
	reply.rw.count = le32_of(0);
	cr_assert(nvme__vfu_parse_rw((void *)&reply, 16, &asked, NULL), "it wrote less");
}

Test(nvme_vfu_parse, accesses_to_our_memory_are_bounded)
{
	struct {
		struct vfu_dma_rw rw;
		uint8_t data[16];
	} ask = { .rw = { le64_of(1ull << 32), le64_of(16) } };
	struct nvme_vfu_dma_request out;

	cr_assert_null(nvme__vfu_parse_dma((void *)&ask, sizeof(ask), true, &out));
	cr_assert(out.count == 16 && out.data == ask.data);
	cr_assert(nvme__vfu_parse_dma((void *)&ask, sizeof(ask) - 1, true, &out));
	cr_assert_null(nvme__vfu_parse_dma((void *)&ask, sizeof(ask.rw), false, &out));
	ask.rw.count = le64_of(NVME_VFU_XFER_MAX + 1);
	cr_assert(nvme__vfu_parse_dma((void *)&ask, sizeof(ask.rw), false, &out));
	ask.rw = (struct vfu_dma_rw){ le64_of(UINT64_MAX - 7), le64_of(16) };
	cr_assert(nvme__vfu_parse_dma((void *)&ask, sizeof(ask.rw), false, &out));
}

/* ---- registers over a connection that is replaced ------------------------------------------ */

/* Takes one message at the server's end.  Returns the register that it writes; 0: none came. */
static uint32_t written(int fd, uint64_t *value)
{
	struct {
		struct vfu_header header;
		struct vfu_region_rw rw;
		uint8_t data[8];
	} m;

	if (recv(fd, &m, sizeof(m.header) + sizeof(m.rw), MSG_DONTWAIT) < 0)
		return 0;
	*value = 0;
	cr_assert_eq(recv(fd, value, le32_get(m.rw.count), 0), le32_get(m.rw.count));
	return (uint32_t)le64_get(m.rw.offset);
}

/* A server that reads nothing: its socket fills up, and writes wait here. */
Test(nvme_vfu_parse, writes_for_a_connection_that_is_gone_are_not_sent_to_the_next)
{
	struct nvme_vfu vfu = { .map_count = 0 };
	uint32_t small = 1, writes = 0;
	uint64_t value;
	int old[2], new[2];

	cr_assert_eq(nvme__vfu_conn_init(&vfu.conn, NULL, 1000000000), 0);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, old), 0);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, new), 0);
	cr_assert_eq(setsockopt(old[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
	vfu.conn.fd = old[0];
	atomic_store_explicit(&vfu.conn.life, 1, memory_order_relaxed);
	atomic_store(&vfu.conn.broken, false);
	for (; vfu.regs.write_count < 3; writes++) {
		cr_assert_lt(writes, 100000);
		nvme__vfu_reg_write(&vfu, 0x14, 4, writes);
	}
	close(old[0]);
	vfu.conn.fd = new[0];
	atomic_store_explicit(&vfu.conn.life, 2, memory_order_relaxed);
	nvme__vfu_reg_write(&vfu, 0x24, 4, 77);
	cr_assert_eq(vfu.regs.write_count, 0);
	cr_assert_eq(written(new[1], &value), 0x24);
	cr_assert_eq(value, 77);
	cr_assert_eq(written(new[1], &value), 0);
	close(old[1]);
	close(new[1]);
	nvme__vfu_conn_destroy(&vfu.conn);
}

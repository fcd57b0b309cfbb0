/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Identify data, by table: what is made of atomic sizes, limits and formats. */
#include "nvme/nvme_internal.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

static struct nvme_id_ctrl ctrl;
static struct nvme_id_ns ns;
static struct nvme_found found;
static char text[NVME_UP_TEXT];

static void setup(void)
{
	memset(&ctrl, 0, sizeof(ctrl));
	memset(&ns, 0, sizeof(ns));
	memset(&found, 0, sizeof(found));
	memset(text, 0, sizeof(text));
	ctrl.sqes = 0x66;
	ctrl.cqes = 0x44;
	ctrl.mdts = 5;
	ns.size_lbas = le64_of(1 << 20);
	ns.lbaf[0].lba_shift = 12;
}

TestSuite(nvme_ns, .init = setup, .timeout = 30);

static int controller(uint64_t cap)
{
	return nvme__read_controller(&found, &ctrl, cap, text, sizeof(text));
}

Test(nvme_ns, transfers_are_limited_by_mdts_in_the_controllers_pages)
{
	static const struct {
		uint8_t mdts, mpsmin, sgls;
		uint32_t blocks;
	} rows[] = { { 1, 0, 0, 2 },     { 5, 0, 0, 32 },   { 5, 1, 0, 64 },  { 8, 0, 0, 256 },
		     { 9, 0, 0, 256 },   { 0, 0, 0, 256 },  { 9, 0, 1, 512 }, { 10, 0, 2, 1024 },
		     { 11, 0, 1, 1024 }, { 0, 0, 1, 1024 }, { 9, 0, 3, 256 }, { 200, 0, 0, 256 },
		     { 19, 15, 1, 1024 } };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		ctrl.mdts = rows[i].mdts;
		ctrl.sgls = le32_of(rows[i].sgls);
		cr_assert_eq(controller((uint64_t)rows[i].mpsmin << 48), 0);
		cr_assert_eq(found.info.transfer_max_bytes, rows[i].blocks * 4096, "row %zu", i);
		cr_assert_eq(found.sgl, rows[i].sgls == 1 || rows[i].sgls == 2);
	}
}

Test(nvme_ns, writes_that_are_not_torn_are_a_power_of_two_within_every_limit)
{
	static const struct {
		uint8_t shift;
		uint16_t awupf;
		bool own;
		uint16_t nawupf, nabspf, nabo;
		uint32_t bytes;
	} rows[] = {
		{ 12, 0, false, 0, 0, 0, 4096 },
		{ 9, 0, false, 0, 0, 0, 512 },
		{ 9, 7, false, 0, 0, 0, 4096 },
		{ 9, 8, false, 0, 0, 0, 4096 },        /* nine LBAs */
		{ 9, 14, false, 0, 0, 0, 4096 },       /* fifteen */
		{ 9, 15, false, 0, 0, 0, 8192 },       /* sixteen */
		{ 12, 65535, false, 0, 0, 0, 131072 }, /* not more than a command carries */
		{ 12, 65535, true, 3, 0, 0, 16384 },   /* the namespace's own counts, not that */
		{ 12, 0, true, 3, 0, 0, 16384 },       /* neither way */
		{ 12, 0, false, 3, 1, 1, 4096 },       /* and only if it says so */
		{ 12, 0, true, 31, 3, 0, 16384 },      /* not across a boundary of 4 LBAs */
		{ 12, 0, true, 31, 5, 0, 8192 },       /* of 6 */
		{ 12, 0, true, 31, 7, 2, 8192 },       /* of 8, from LBA 2 on */
		{ 9, 0, true, 255, 255, 8, 4096 },     /* from the second block on */
		{ 9, 0, true, 255, 255, 1, 512 },
		{ 9, 0, true, 255, 0, 1, 131072 }, /* no boundary: no offset either */
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		ctrl.awupf = le16_of(rows[i].awupf);
		ns.lbaf[0].lba_shift = rows[i].shift;
		ns.nsfeat = rows[i].own ? NVME_NSFEAT_ATOMIC : 0;
		ns.nawupf = le16_of(rows[i].nawupf);
		ns.nabspf = le16_of(rows[i].nabspf);
		ns.nabo = le16_of(rows[i].nabo);
		cr_assert_eq(controller(0), 0);
		cr_assert_eq(nvme__read_namespace(&found, &ns, text, sizeof(text)), 0);
		cr_assert_eq(found.info.atomic_bytes, rows[i].bytes, "row %zu: %u", i,
			     found.info.atomic_bytes);
	}
}

Test(nvme_ns, format_in_use_is_found_among_sixty_four)
{
	cr_assert_eq(controller(0), 0);
	for (uint32_t format = 0; format < 64; format++) {
		memset(ns.lbaf, 0, sizeof(ns.lbaf));
		ns.lbaf[format].lba_shift = 9;
		ns.flbas = (uint8_t)((format & 15) | (format >> 4) << 5);
		cr_assert_eq(nvme__read_namespace(&found, &ns, text, sizeof(text)), 0, "%u: %s",
			     format, text);
		cr_assert_eq(found.info.lba_bytes, 512);
		cr_assert_eq(found.info.nblocks, 1 << 17);
	}
}

Test(nvme_ns, ranges_keep_the_limits_of_both_command_and_controller)
{
	static const struct {
		uint8_t shift, wzsl;
		uint32_t dmrsl;
		uint64_t dmsl;
		uint32_t zero, free;
	} rows[] = { { 12, 0, 0, 0, 65536, NVME_RANGE_BLOCKS_MAX },
		     { 9, 0, 0, 0, 8192, NVME_RANGE_BLOCKS_MAX },
		     { 12, 3, 100, 0, 8, 100 },
		     { 9, 3, 100, 0, 8, 12 },
		     { 12, 0, 100, 50, 65536, 50 },
		     { 12, 0, 0, 50, 65536, 50 },
		     { 9, 0, 7, 0, 8192, 0 }, /* less than a block: of no use */
		     { 12, 200, 0, 1ull << 60, 65536, NVME_RANGE_BLOCKS_MAX } };

	ctrl.oncs = le16_of(NVME_ONCS_DATASET | NVME_ONCS_ZEROES);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct nvme_id_ctrl_nvm nvm;

		memset(&nvm, 0, sizeof(nvm));
		nvm.wzsl = rows[i].wzsl;
		nvm.dmrsl = le32_of(rows[i].dmrsl);
		nvm.dmsl = le64_of(rows[i].dmsl);
		ns.lbaf[0].lba_shift = rows[i].shift;
		memset(&found, 0, sizeof(found));
		cr_assert_eq(controller(0), 0);
		nvme__read_limits(&found, &nvm);
		cr_assert_eq(nvme__read_namespace(&found, &ns, text, sizeof(text)), 0);
		cr_assert_eq(found.info.zero_max_blocks, rows[i].zero, "row %zu", i);
		cr_assert_eq(found.info.deallocate_max_blocks, rows[i].free, "row %zu", i);
	}
}

Test(nvme_ns, entries_of_other_sizes_are_refused)
{
	ctrl.sqes = 0x77;
	cr_assert_eq(controller(0), -ENOTSUP);
	cr_assert_not_null(strstr(text, "64 and 16"), "%s", text);
	ctrl.sqes = 0x55;
	cr_assert_eq(controller(0), -ENOTSUP);
	ctrl.sqes = 0x76;
	cr_assert_eq(controller(0), 0, "6 to 7");
}

Test(nvme_ns, descriptors_end_where_their_page_ends)
{
	static uint8_t page[NVME_PAGE_SIZE];

	memset(page, 0xff, sizeof(page)); /* one after the other, of 255 bytes, to the very end */
	cr_assert_eq(nvme__read_descriptors(page, text, sizeof(text)), 0);
	memset(page, 0, sizeof(page));
	page[0] = 9;
	page[1] = 0;
	for (size_t at = 0; at < sizeof(page); at += 4)
		page[at] = 9; /* of no bytes each */
	cr_assert_eq(nvme__read_descriptors(page, text, sizeof(text)), 0);
	page[4088] = NVME_DESCRIPTOR_COMMAND_SET;
	page[4092] = NVME_COMMAND_SET_ZONED;
	cr_assert_eq(nvme__read_descriptors(page, text, sizeof(text)), -ENOTSUP);
}

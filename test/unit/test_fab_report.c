/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "fabric/fab_report.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

static uint8_t body[FAB_REPORT_BYTES];
static struct fab_report out;

static void build(const char *dataset, const char *verdict)
{
	struct fab_report r = { .rank = 1, .world = 4, .samples = 5, .samples_total = 1ull << 40 };

	r.bytes = UINT64_MAX;
	r.open_ns = 9;
	r.waited_ns = 8;
	memcpy(r.dataset, dataset, strlen(dataset));
	memcpy(r.verdict, verdict, strlen(verdict));
	fab_report_build(body, &r);
}

/* The text of a body is at 56 and 168. */
static int with(uint32_t at, uint8_t byte)
{
	build("pets@2", "not starved");
	body[at] = byte;
	return fab_report_parse(&out, body);
}

Test(fab_report, what_is_built_is_parsed)
{
	build("pets@2", "starved 9 % of 1.0 s: drives 100 %");
	cr_assert_eq(fab_report_parse(&out, body), 0);
	cr_expect(out.rank == 1 && out.world == 4 && out.samples == 5);
	cr_expect(out.samples_total == 1ull << 40 && out.bytes == UINT64_MAX);
	cr_expect(out.open_ns == 9 && out.waited_ns == 8);
	cr_expect_str_eq(out.dataset, "pets@2");
	cr_expect_str_eq(out.verdict, "starved 9 % of 1.0 s: drives 100 %");
}

Test(fab_report, another_format_is_not_taken)
{
	cr_assert_eq(with(0, 2), -EOPNOTSUPP);
}

Test(fab_report, texts_are_printable_and_end)
{
	cr_expect_eq(with(56, 27), -EPROTO, "an escape sequence for a terminal");
	cr_expect_eq(with(57, '"'), -EPROTO);
	cr_expect_eq(with(168, '\\'), -EPROTO);
	cr_expect_eq(with(170, 0xc3), -EPROTO);
	cr_expect_eq(with(167, 'x'), -EPROTO, "something behind the end");
	build("pets@2", "");
	memset(body + 168, 'x', 160);
	cr_expect_eq(fab_report_parse(&out, body), -EPROTO, "no end");
	body[327] = 0;
	cr_expect_eq(fab_report_parse(&out, body), 0);
}

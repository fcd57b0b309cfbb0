/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The appliance's row of each request, compared with fabric/PROTOCOL.md and with the codec: what
 * the document says of a request in a table or a list, its row says too.
 */
#include "appliance/core/app_op.h"
#include "appliance/core/app_snapshot.h"
#include "fabric/hello/fab_server_internal.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE_MAX = 1 << 20, NAME_MAX_BYTES = 32 };

static char *page; /* PROTOCOL.md, in one line: a list may go on in the next one */

static void setup(void)
{
	FILE *f = fopen("fabric/PROTOCOL.md", "r");
	size_t bytes;

	cr_assert(f);
	page = calloc(1, PAGE_MAX);
	cr_assert(page);
	bytes = fread(page, 1, PAGE_MAX - 1, f);
	cr_assert(bytes > 0 && bytes < PAGE_MAX - 1);
	fclose(f);
	for (size_t i = 0; i < bytes; i++)
		if (page[i] == '\n')
			page[i] = ' ';
}

static void teardown(void)
{
	free(page);
}

TestSuite(app_rows, .init = setup, .fini = teardown);

/* The row's name as the document writes it. */
static const char *upper(uint32_t type)
{
	static char out[NAME_MAX_BYTES];
	const char *name = app_rows[type].name;
	size_t i = 0;

	cr_assert(name, "type %u has no row", type);
	for (; name[i] && i < sizeof(out) - 1; i++)
		out[i] = (char)toupper((unsigned char)name[i]);
	out[i] = 0;
	return out;
}

/* Points behind `text`, which the document must have. */
static const char *behind(const char *text)
{
	const char *at = strstr(page, text);

	cr_assert(at, "PROTOCOL.md: no longer there: %s", text);
	return at + strlen(text);
}

/* The list between `from` and `to` has the name, as a whole word. */
static bool is_listed(const char *from, const char *to, const char *name)
{
	const char *at = behind(from), *end = strstr(at, to);
	const size_t length = strlen(name);

	cr_assert(end, "PROTOCOL.md: no longer there: %s", to);
	for (; (at = strstr(at, name)) && at < end; at += length)
		if (strchr(" ,.", at[-1]) && strchr(" ,.", at[length]))
			return true;
	return false;
}

/* The table's line of `type`: "| 16 | PING | body | window |", from its body on; NULL: none. */
static const char *line_of(uint32_t type, char name[NAME_MAX_BYTES])
{
	const char *at = behind("### Bodies"), *end = strstr(at, " ## 6. "), *second;
	char text[NAME_MAX_BYTES];

	cr_assert(end);
	snprintf(text, sizeof(text), " | %u | ", type);
	at = strstr(at, text);
	if (!at || at > end)
		return NULL;
	cr_assert_eq(sscanf(at + strlen(text), "%31[A-Z_]", name), 1, "type %u", type);
	second = strstr(at + 1, text);
	cr_assert(!second || second > end, "type %u has two lines", type);
	return strchr(at + strlen(text), '|');
}

Test(app_rows, every_request_of_the_protocol_has_its_row_by_its_name)
{
	char name[NAME_MAX_BYTES];

	for (uint32_t type = FAB_PING; type < FAB_TYPE_END; type++) {
		cr_assert(line_of(type, name), "the document has no type %u", type);
		cr_assert_str_eq(upper(type), name);
		cr_assert_str_eq(app_request_name(type), app_rows[type].name);
	}
	cr_assert_null(line_of(FAB_TYPE_END, name), "the document has one more");
	for (uint32_t type = 0; type < FAB_PING; type++)
		cr_assert_null(app_rows[type].name);
	cr_assert_null(app_request_name(FAB_TYPE_END));
}

Test(app_rows, no_two_rows_have_one_name)
{
	for (uint32_t a = FAB_PING; a < FAB_TYPE_END; a++)
		for (uint32_t b = FAB_PING; b < a; b++)
			cr_assert_str_neq(app_rows[a].name, app_rows[b].name);
}

Test(app_rows, every_row_begins_an_operation_that_answers)
{
	for (uint32_t type = FAB_PING + 1; type < FAB_TYPE_END; type++) {
		const struct app_row *row = &app_rows[type];

		cr_assert(row->begin, "%s", row->name);
		cr_assert_lt(row->kind, APP_OP_KINDS);
		cr_assert(app_kinds[row->kind].step, "%s", row->name);
		cr_assert(row->is_batch || app_kinds[row->kind].answer, "%s", row->name);
	}
	cr_assert_null(app_rows[FAB_PING].begin, "it is answered at once");
}

/* A batch's body begins with a count, or is like that of STAT, whose body does. */
Test(app_rows, a_request_with_a_count_is_a_batch)
{
	char name[NAME_MAX_BYTES];

	for (uint32_t type = FAB_PING; type < FAB_TYPE_END; type++) {
		const char *body = line_of(type, name);
		const bool batch =
			strncmp(body, "| count 4", 9) == 0 || strncmp(body, "| as STAT", 9) == 0;

		cr_assert_eq(app_rows[type].is_batch, batch, "%s", name);
	}
}

/* OPEN is one when it creates or truncates; its row must allow for that. */
static bool may_change(uint32_t type)
{
	const union fab_args create = { .open.flags = FAB_OPEN_CREATE };

	return fab_is_change((enum fab_type)type,
			     type == FAB_OPEN ? &create : &(union fab_args){ 0 });
}

Test(app_rows, what_the_protocol_calls_a_change_is_one)
{
	const union fab_args plain = { .open.flags = FAB_OPEN_DIRECTORY | FAB_OPEN_HOLD };

	for (uint32_t type = FAB_PING; type < FAB_TYPE_END; type++) {
		const bool listed =
			is_listed("Changes are all requests except ", ", and OPEN", upper(type));

		cr_assert_eq(app_rows[type].changes, !listed, "%s", upper(type));
		cr_assert_eq(app_rows[type].changes, may_change(type), "%s", upper(type));
	}
	cr_assert_not(fab_is_change(FAB_OPEN, &plain));
}

/* Its id has the form of a change's: only then does the appliance look for a receipt. */
Test(app_rows, only_a_change_is_replayed)
{
	struct fab_session session = { .client = 1 };
	struct fab_req req = { .session = &session, .id = 1u << 16 | FAB_ID_CHANGE | FAB_ID_AGAIN };
	struct fab_change change;

	for (uint32_t type = FAB_PING; type < FAB_TYPE_END; type++) {
		req.type = (enum fab_type)type;
		req.args.open.flags = type == FAB_OPEN ? FAB_OPEN_TRUNC : 0;
		cr_assert_eq(fab_req_change(&req, &change), app_rows[type].changes, "%s",
			     upper(type));
	}
}

/* ---- rights -------------------------------------------------------------------------------- */

static int asks(uint32_t type, const struct fab_rights *rights)
{
	static struct fab_server srv = { .now_ns = 1 };
	static struct fab__session session = { .srv = &srv };
	struct fab_req req = { .session = &session.pub, .type = (enum fab_type)type };

	for (uint32_t i = 0; i < FAB_REFUSALS_END; i++)
		session.refused_ns[i] = srv.now_ns; /* people were told just now */
	session.pub.rights = rights;
	req.args.open.flags = type == FAB_OPEN ? FAB_OPEN_TRUNC : 0;
	return app_rights_check(&req);
}

Test(app_rows, a_key_that_only_reads_may_send_what_the_protocol_lists)
{
	const struct fab_rights reads = { .may_write = false };

	for (uint32_t type = FAB_PING; type < FAB_TYPE_END; type++) {
		const bool listed =
			is_listed("A key that may only read may send ", ", and OPEN", upper(type));

		cr_assert_eq(asks(type, &reads), listed ? 0 : -EACCES, "%s", upper(type));
		cr_assert_eq(app_rows[type].changes, !listed, "%s", upper(type));
	}
}

Test(app_rows, what_sees_or_changes_the_whole_store_needs_a_key_for_it)
{
	const struct fab_rights subtree = { .may_write = true, .subtree = "/team" };
	const struct fab_rights user = { .may_write = true, .has_uid = true, .uid = 7, .gids = 1 };
	const struct fab_rights all = { .may_write = true };

	for (uint32_t type = FAB_PING; type < FAB_TYPE_END; type++) {
		const bool drives = type == FAB_DRAIN || type == FAB_UNDRAIN || type == FAB_PROTECT;
		const bool whole =
			is_listed("A key with a subtree may not send ", ", and a key", upper(type));
		const bool names =
			is_listed("and a key with a user may not send ", " With", upper(type));

		cr_assert_eq(asks(type, &all), 0, "%s", upper(type));
		cr_assert_eq(asks(type, &subtree), whole || drives ? -EACCES : 0, "%s",
			     upper(type));
		cr_assert_eq(asks(type, &user), names || drives ? -EACCES : 0, "%s", upper(type));
	}
}

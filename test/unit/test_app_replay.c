/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Changes that are asked for again, against the appliance whole: done once, with the answer of the
 * first time, whatever became of the session.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/num.h"
#include "base/rand.h"
#include "client-lib/client_internal.h"
#include "test/lib/app_rig.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct way {
	char transport[8];
};
static struct way ways[] = { { "shm" }, { "tcp" } };

static struct app_rig rig = {
	.cfg = { .boot = APP_BOOT_FORMAT, .ndrives = 2, .cache_bytes = 32 << 20, .ops_max = 32 }
};
static struct weka_client *client; /* who looks at what became of it */

#define BOTH(test)                                                                                 \
	ParameterizedTestParameters(app_replay, test)                                              \
	{                                                                                          \
		return cr_make_param_array(struct way, ways, 2);                                   \
	}                                                                                          \
	ParameterizedTest(struct way *way, app_replay, test)

TestSuite(app_replay, .timeout = 120);

static void end(void)
{
	weka_close(client);
	cr_assert_eq(app_rig_end(&rig), 0, "%s", rig.run.why);
}

/* ---- one connection, which says that it was cut off ------------------------------------------ */

static struct fab_conn *conn;
static struct fab_region *region;
static uint64_t number;

/* A session of the client with this id; its earlier ones end. */
static struct fab_conn *dial(uint8_t id)
{
	struct fab_connect_cfg cfg = { .address = fab_server_address(rig.srv, 0),
				       .key = { .id = "weka" } };
	struct fab_conn *c;
	int err;

	memcpy(cfg.key.secret, app_rig_secret, FAB_KEY_BYTES);
	memset(cfg.client_id, id, sizeof(cfg.client_id));
	cr_assert_eq(fab_connect(&c, &cfg, clock_now_ns()), 0);
	while ((err = fab_connect_step(c, clock_now_ns())) == -EINPROGRESS)
		usleep(100);
	cr_assert_eq(err, 0, "%s", fab_conn_error(c));
	return c;
}

static void connect_again(uint8_t id)
{
	struct fab_call *none;

	if (conn)
		fab_close(conn);
	conn = dial(id);
	cr_assert_eq(fab_pool_add(conn, 8 << 20, &region), 0);
	while (fab_region_status(region) == -EINPROGRESS)
		cr_assert_eq(fab_poll(conn, clock_now_ns(), &none, 1), 0);
	cr_assert_eq(fab_region_status(region), 0);
}

static void send_call(struct fab_call *call, bool again, bool sure)
{
	call->change =
		(struct fab_change){ .number = number, .slot = 5, .again = again, .sure = sure };
	if (call->window_bytes)
		call->region = region;
	cr_assert_eq(fab_submit(conn, call), 0);
	fab_flush(conn);
}

static int wait_for(struct fab_call *call)
{
	struct fab_call *done = NULL;

	while (fab_poll(conn, clock_now_ns(), &done, 1) == 0)
		usleep(100);
	cr_assert_eq(done, call);
	return call->status;
}

static int ask(struct fab_call *call, bool again)
{
	send_call(call, again, false);
	return wait_for(call);
}

static struct fab_name path(const char *text)
{
	return (struct fab_name){ .by = FAB_BY_PATH,
				  .name = text,
				  .name_bytes = (uint16_t)strlen(text) };
}

/* The window of the connection as it is now: bytes, and behind them their checksums. */
static void fill(uint32_t length, char what)
{
	char *at = fab_region_memory(region);
	uint32_t blocks = (uint32_t)div_up(length, BLOCK_SIZE), sum;

	memset(at, what, length);
	for (uint32_t i = 0; i < blocks; i++) {
		uint32_t piece = min_u32(BLOCK_SIZE, length - i * BLOCK_SIZE);

		sum = crc32c_block(at + i * BLOCK_SIZE, piece);
		memcpy(at + align_up(length, 4) + 4 * i, &sum, 4);
	}
}

static struct fab_call append_call(const struct weka_handle *h, uint32_t length)
{
	struct fab_call call = { .type = FAB_WRITE, .window_bytes = 8 << 20 };

	memcpy(call.args.write.handle.bytes, h->bytes, sizeof(h->bytes));
	call.args.write.length_bytes = length;
	call.args.write.flags = FAB_WRITE_APPEND;
	call.args.write.sums_at = (uint32_t)align_up(length, 4);
	return call;
}

static uint64_t size_of(const char *name)
{
	struct weka_attr attr;
	int err = weka_stat(client, name, &attr);

	cr_assert(err == 0 || err == -ENOENT, "%s: %s", name, weka_error(client));
	return err ? UINT64_MAX : attr.size_bytes;
}

BOTH(an_append_is_made_once_and_answered_twice)
{
	static const uint32_t lengths[] = { 100, 5000, 1 << 20 };
	uint64_t size = 0;
	struct weka_attr attr;

	client = app_rig_begin_over(&rig, way->transport);
	cr_assert_eq(weka_write_file(client, "/f", "", 0, NULL), 0);
	cr_assert_eq(weka_stat(client, "/f", &attr), 0);
	for (uint32_t i = 0; i < 3; i++) {
		struct fab_call call = append_call(&attr.handle, lengths[i]);

		number++;
		connect_again(1);
		fill(lengths[i], 'x');
		cr_assert_eq(ask(&call, false), 0);
		size += lengths[i];
		cr_assert_eq(call.length_bytes, size);
		for (uint32_t again = 0; again < 3; again++) {
			connect_again(1);
			fill(lengths[i], 'x');
			call.length_bytes = 0;
			cr_assert_eq(ask(&call, true), 0);
			cr_assert_eq(call.length_bytes, size);
			cr_assert_eq(size_of("/f"), size);
		}
	}
	/* A change that was never made is made; one older than the newest is unknown. */
	struct fab_call call = append_call(&attr.handle, 7);

	number++;
	fill(7, 'y');
	cr_assert_eq(ask(&call, true), 0);
	cr_assert_eq(size_of("/f"), size + 7);
	number -= 2;
	cr_assert_eq(ask(&call, true), -ECONNRESET);
	cr_assert_eq(size_of("/f"), size + 7);
	fab_close(conn);
	conn = NULL;
	end();
}

/* Names: made, answered, and asked for again when the world has gone on. */
BOTH(names_are_made_once)
{
	struct fab_call make = { .type = FAB_MKDIR }, open_ = { .type = FAB_OPEN };
	struct fab_attr first, second;

	client = app_rig_begin_over(&rig, way->transport);
	connect_again(1);
	make.args.make.name = path("/d");
	make.args.make.mode = 0755;
	number = 1;
	cr_assert_eq(ask(&make, false), 0);
	cr_assert_eq(fab_call_attr(&make, 0, &first), 0);
	connect_again(1);
	cr_assert_eq(ask(&make, true), 0);
	cr_assert_eq(fab_call_attr(&make, 0, &second), 0);
	cr_assert_arr_eq(&first, &second, sizeof(first));
	/* Even if somebody has removed it meanwhile. */
	cr_assert_eq(weka_rmdir(client, "/d"), 0);
	cr_assert_eq(ask(&make, true), 0);
	cr_assert_eq(fab_call_attr(&make, 0, &second), 0);
	cr_assert_arr_eq(&first.handle, &second.handle, sizeof(first.handle));
	cr_assert_eq(size_of("/d"), UINT64_MAX);

	/* O_EXCL: not its own file that it finds. */
	open_.args.open.name = path("/e");
	open_.args.open.flags = FAB_OPEN_CREATE | FAB_OPEN_EXCL;
	open_.args.open.mode = 0644;
	number = 2;
	cr_assert_eq(ask(&open_, false), 0);
	cr_assert_eq(fab_call_attr(&open_, 0, &first), 0);
	connect_again(1);
	cr_assert_eq(ask(&open_, true), 0);
	cr_assert_eq(fab_call_attr(&open_, 0, &second), 0);
	cr_assert_arr_eq(&first, &second, sizeof(first));
	number = 3;
	cr_assert_eq(ask(&open_, true), -EEXIST);
	cr_assert_eq(ask(&open_, false), -EEXIST);

	fab_close(conn);
	conn = NULL;
	end();
}

BOTH(names_are_moved_and_removed_once)
{
	struct fab_call move = { .type = FAB_RENAME }, unlink_ = { .type = FAB_UNLINK },
			open_ = { .type = FAB_OPEN }, link_ = { .type = FAB_SYMLINK };

	client = app_rig_begin_over(&rig, way->transport);
	connect_again(1);
	cr_assert_eq(weka_write_file(client, "/e", "", 0, NULL), 0);
	/* A rename whose source is somebody else's by now. */
	move.args.rename.from = path("/e");
	move.args.rename.to = path("/m");
	number = 4;
	cr_assert_eq(ask(&move, false), 0);
	cr_assert_eq(weka_write_file(client, "/e", "other", 5, NULL), 0);
	connect_again(1);
	cr_assert_eq(ask(&move, true), 0);
	cr_assert_eq(size_of("/e"), 5);
	cr_assert_eq(size_of("/m"), 0);

	/* An exchange: twice would be none. */
	move.args.rename.flags = FAB_RENAME_EXCHANGE;
	number = 5;
	cr_assert_eq(ask(&move, false), 0);
	cr_assert_eq(size_of("/e"), 0);
	connect_again(1);
	cr_assert_eq(ask(&move, true), 0);
	cr_assert_eq(size_of("/e"), 0);
	cr_assert_eq(size_of("/m"), 5);

	unlink_.args.name.name = path("/m");
	number = 6;
	cr_assert_eq(ask(&unlink_, false), 0);
	cr_assert_eq(weka_write_file(client, "/m", "mine", 4, NULL), 0);
	connect_again(1);
	cr_assert_eq(ask(&unlink_, true), 0);
	cr_assert_eq(size_of("/m"), 4);

	link_.args.symlink.name = path("/s");
	link_.args.symlink.target = "m";
	link_.args.symlink.target_bytes = 1;
	number = 7;
	cr_assert_eq(ask(&link_, false), 0);
	connect_again(1);
	cr_assert_eq(ask(&link_, true), 0);

	/* Truncating: what was written since stays. */
	open_.args.open.name = path("/m");
	open_.args.open.flags = FAB_OPEN_TRUNC;
	number = 8;
	cr_assert_eq(ask(&open_, false), 0);
	cr_assert_eq(weka_write_file(client, "/m2", "mine", 4, NULL), 0);
	cr_assert_eq(weka_rename(client, "/m2", "/m"), 0);
	connect_again(1);
	cr_assert_eq(ask(&open_, true), 0);
	cr_assert_eq(size_of("/m"), 4);
	fab_close(conn);
	conn = NULL;
	end();
}

/* A hole that another client has written to since is not punched again. */
BOTH(a_hole_is_made_once)
{
	struct fab_call punch = { .type = FAB_PUNCH };
	struct weka_attr a;
	char bytes[9000];

	client = app_rig_begin_over(&rig, way->transport);
	connect_again(1);
	memset(bytes, 'x', sizeof(bytes));
	cr_assert_eq(weka_write_file(client, "/f", bytes, sizeof(bytes), NULL), 0);
	cr_assert_eq(weka_stat(client, "/f", &a), 0);
	memcpy(punch.args.range.handle.bytes, a.handle.bytes, sizeof(a.handle.bytes));
	punch.args.range.offset_bytes = 100;
	punch.args.range.length_bytes = 8000;
	number = 6;
	cr_assert_eq(ask(&punch, false), 0);
	cr_assert_eq(weka_pwrite(client, &a.handle, "y", 1, 5000), 1);
	connect_again(1);
	cr_assert_eq(ask(&punch, true), 0);
	cr_assert_eq(weka_pread(client, &a.handle, bytes, sizeof(bytes), 0), 9000);
	cr_assert_eq(bytes[100] | bytes[4999] | bytes[8099], 0);
	cr_assert_eq(bytes[5000], 'y');
	number = 7;
	cr_assert_eq(ask(&punch, true), 0); /* one that did not arrive is made */
	cr_assert_eq(weka_pread(client, &a.handle, bytes, sizeof(bytes), 0), 9000);
	cr_assert_eq(bytes[5000], 0);
	fab_close(conn);
	conn = NULL;
	end();
}

BOTH(a_file_gets_a_name_once)
{
	struct fab_call link_ = { .type = FAB_LINK };
	struct weka_attr a;

	client = app_rig_begin_over(&rig, way->transport);
	connect_again(1);
	cr_assert_eq(weka_write_file(client, "/f", "file", 4, NULL), 0);
	link_.args.rename.from = path("/f");
	link_.args.rename.to = path("/l");
	number = 4;
	cr_assert_eq(ask(&link_, false), 0);
	connect_again(1);
	cr_assert_eq(ask(&link_, true), 0);
	cr_assert_eq(weka_stat(client, "/f", &a), 0);
	cr_assert_eq(a.nlink, 2);
	/* Asked for again when somebody has taken both names: nothing is made of theirs. */
	cr_assert_eq(weka_write_file(client, "/f", "", 0, NULL), 0);
	cr_assert_eq(weka_unlink(client, "/l"), 0);
	connect_again(1);
	cr_assert_eq(ask(&link_, true), 0);
	cr_assert_eq(weka_stat(client, "/l", &a), -ENOENT);
	number = 5;
	cr_assert_eq(ask(&link_, true), 0); /* one that did not arrive is made */
	cr_assert_eq(weka_stat(client, "/l", &a), 0);
	cr_assert_eq(a.nlink, 2);
	fab_close(conn);
	conn = NULL;
	end();
}

/* An attribute that another client has set, or removed, since is not set again. */
BOTH(an_attribute_is_set_once)
{
	struct fab_call set = { .type = FAB_XATTR_SET }, del = { .type = FAB_XATTR_DEL };
	char value[8];

	client = app_rig_begin_over(&rig, way->transport);
	connect_again(1);
	cr_assert_eq(weka_write_file(client, "/f", "file", 4, NULL), 0);
	set.args.xattr.name = del.args.xattr.name = path("/f");
	set.args.xattr.xattr = del.args.xattr.xattr = "user.x";
	set.args.xattr.xattr_bytes = del.args.xattr.xattr_bytes = 6;
	set.args.xattr.value = "old";
	set.args.xattr.value_bytes = 3;
	set.args.xattr.flags = FAB_XATTR_CREATE;
	number = 4;
	cr_assert_eq(ask(&set, false), 0);
	cr_assert_eq(weka_setxattr(client, "/f", "user.x", "newer", 5, 0), 0);
	connect_again(1);
	cr_assert_eq(ask(&set, true), 0);
	cr_assert_eq(weka_getxattr(client, "/f", "user.x", value, 8), 5);
	number = 5;
	cr_assert_eq(ask(&set, true), -EEXIST); /* one that did not arrive is tried */
	number = 6;
	cr_assert_eq(ask(&del, false), 0);
	cr_assert_eq(weka_setxattr(client, "/f", "user.x", "newest", 6, 0), 0);
	connect_again(1);
	cr_assert_eq(ask(&del, true), 0);
	cr_assert_eq(weka_getxattr(client, "/f", "user.x", value, 8), 6);
	number = 7;
	cr_assert_eq(ask(&del, true), 0);
	cr_assert_eq(weka_getxattr(client, "/f", "user.x", value, 8), -ENODATA);
	fab_close(conn);
	conn = NULL;
	end();
}

BOTH(a_tree_is_removed_once)
{
	struct fab_call remove = { .type = FAB_RMTREE };
	struct weka_attr a;

	client = app_rig_begin_over(&rig, way->transport);
	connect_again(1);
	cr_assert_eq(weka_mkdir(client, "/t", 0755), 0);
	cr_assert_eq(weka_write_file(client, "/t/f", "old", 3, NULL), 0);
	remove.args.name.name = path("/t");
	number = 4;
	cr_assert_eq(ask(&remove, false), 0);
	cr_assert_eq(weka_stat(client, "/t/f", &a), -ENOENT);
	/* Somebody else's by now. */
	cr_assert_eq(weka_mkdir(client, "/t", 0755), 0);
	cr_assert_eq(weka_write_file(client, "/t/f", "newer", 5, NULL), 0);
	connect_again(1);
	cr_assert_eq(ask(&remove, true), 0);
	cr_assert_eq(weka_stat(client, "/t/f", &a), 0);
	cr_assert_eq(a.size_bytes, 5);
	number = 5;
	cr_assert_eq(ask(&remove, true), 0); /* one that did not arrive is made */
	cr_assert_eq(weka_stat(client, "/t", &a), -ENOENT);
	cr_assert_eq(weka_write_file(client, "/f", "", 0, NULL), 0);
	cr_assert_eq(weka_rmtree(client, "/t"), -ENOENT);
	cr_assert_eq(weka_rmtree(client, "/f"), -ENOTDIR);
	cr_assert_eq(weka_rmtree(client, "/"), -EINVAL);
	fab_close(conn);
	conn = NULL;
	end();
}

/* A batch was cut off in the middle: its other items are put, and those that were put stay as they
 * are now. */
BOTH(items_of_a_put_are_put_once)
{
	enum { ITEMS = 20 };
	struct fab_put_item items[ITEMS];
	struct fab_call call = { .type = FAB_PUT, .window_bytes = 1 << 20 };
	struct fab_answer first[ITEMS], second;
	static char names[ITEMS][16];

	client = app_rig_begin_over(&rig, way->transport);
	connect_again(1);
	fill(10, 'p');
	for (uint32_t i = 0; i < ITEMS; i++) {
		snprintf(names[i], sizeof(names[i]), "/p%u", i);
		items[i] = (struct fab_put_item){ .name = path(names[i]),
						  .mode = 0644,
						  .flags = FAB_PUT_EXCL,
						  .size_bytes = 10,
						  .sums_at = 12 };
	}
	call.args.batch.puts = items;
	call.args.batch.count = ITEMS / 2; /* as far as it came */
	number = 1;
	cr_assert_eq(ask(&call, false), 0);
	for (uint32_t i = 0; i < ITEMS / 2; i++) {
		cr_assert_eq(fab_call_answer(&call, i, &first[i]), 0);
		cr_assert_eq(first[i].status, 0);
	}
	cr_assert_eq(weka_unlink(client, names[0]), 0);
	cr_assert_eq(weka_write_file(client, names[1], "newer", 5, NULL), 0);
	connect_again(1);
	fill(10, 'p');
	call.args.batch.count = ITEMS;
	cr_assert_eq(ask(&call, true), 0);
	for (uint32_t i = 0; i < ITEMS; i++) {
		cr_assert_eq(fab_call_answer(&call, i, &second), 0);
		cr_assert_eq(second.status, 0, "item %u: %d", i, second.status);
		if (i < ITEMS / 2)
			cr_assert_arr_eq(&second.handle, &first[i].handle, sizeof(second.handle));
		if (i > 1)
			cr_assert_eq(size_of(names[i]), 10);
	}
	cr_assert_eq(size_of(names[0]), UINT64_MAX);
	cr_assert_eq(size_of(names[1]), 5);
	fab_close(conn);
	conn = NULL;
	end();
}

/* A batch was cut off in the middle: its other names are removed, and a file that has a name again
 * by then keeps it. */
BOTH(names_of_a_batch_are_removed_once)
{
	enum { ITEMS = 20 };
	static char names[ITEMS][16];
	struct fab_name items[ITEMS];
	struct fab_call call = { .type = FAB_UNLINK_BATCH, .args.batch.names = items };

	client = app_rig_begin_over(&rig, way->transport);
	connect_again(1);
	for (uint32_t i = 0; i < ITEMS; i++) {
		snprintf(names[i], sizeof(names[i]), "/u%u", i);
		items[i] = path(names[i]);
		cr_assert_eq(weka_write_file(client, names[i], "old", 3, NULL), 0);
	}
	call.args.batch.count = ITEMS / 2; /* as far as it came */
	number = 1;
	cr_assert_eq(ask(&call, false), 0);
	cr_assert_eq(weka_write_file(client, names[1], "newer", 5, NULL), 0);
	connect_again(1);
	call.args.batch.count = ITEMS;
	cr_assert_eq(ask(&call, true), 0);
	for (uint32_t i = 0; i < ITEMS; i++) {
		cr_assert_eq(fab_call_status(&call, i), 0, "item %u", i);
		cr_assert_eq(size_of(names[i]), i == 1 ? 5 : UINT64_MAX, "item %u", i);
	}
	number = 2;
	cr_assert_eq(ask(&call, true), 0); /* one that did not arrive is made */
	for (uint32_t i = 0; i < ITEMS; i++)
		cr_assert_eq(fab_call_status(&call, i), i == 1 ? 0 : -ENOENT, "item %u", i);
	fab_close(conn);
	conn = NULL;
	end();
}

/* A hidden file ends with its session, and its commit is made once or never. */
BOTH(a_put_in_pieces_is_committed_once)
{
	struct fab_call begin_ = { .type = FAB_PUT_BEGIN }, commit = { .type = FAB_PUT_COMMIT },
			abort_ = { .type = FAB_PUT_ABORT };
	struct fab_attr attr;

	client = app_rig_begin_over(&rig, way->transport);
	connect_again(1);
	begin_.args.make.name = path("/long");
	begin_.args.make.mode = 0644;
	number = 1;
	cr_assert_eq(ask(&begin_, false), 0);
	connect_again(1);
	cr_assert_eq(ask(&begin_, true), 0); /* another */
	cr_assert_eq(fab_call_attr(&begin_, 0, &attr), 0);
	commit.args.size.handle = attr.handle;
	commit.args.size.size_bytes = 5;
	number = 2;
	cr_assert_eq(ask(&commit, false), 0);
	connect_again(1);
	cr_assert_eq(ask(&commit, true), 0);
	cr_assert_eq(size_of("/long"), 5);
	number = 3;
	cr_assert_eq(ask(&commit, true), -ESTALE);

	number = 4;
	cr_assert_eq(ask(&begin_, false), 0);
	cr_assert_eq(fab_call_attr(&begin_, 0, &attr), 0);
	connect_again(1);
	abort_.args.size.handle = attr.handle;
	number = 5;
	cr_assert_eq(ask(&abort_, true), 0); /* its session's end did that */
	commit.args.size.handle = attr.handle;
	number = 6;
	cr_assert_eq(ask(&commit, true), -ESTALE);
	fab_close(conn);
	conn = NULL;
	end();
}

static void begin_long(struct fab_call *begin_, struct fab_attr *attr)
{
	*begin_ = (struct fab_call){ .type = FAB_PUT_BEGIN };
	begin_->args.make.name = path("/long");
	begin_->args.make.mode = 0644;
	number++;
	cr_assert_eq(ask(begin_, false), 0);
	cr_assert_eq(fab_call_attr(begin_, 0, attr), 0);
}

/*
 * A commit that has its answer already, or is cancelled before that is known, does not touch the
 * hidden file that it names: the file can still be committed, and goes with its session.
 */
BOTH(a_commit_that_is_not_done_leaves_the_file_as_it_was)
{
	struct fab_call begin_, commit = { .type = FAB_PUT_COMMIT }, *done;
	struct fab_attr attr;

	client = app_rig_begin_over(&rig, way->transport);
	connect_again(1);
	commit.args.size.size_bytes = 5;
	begin_long(&begin_, &attr);
	commit.args.size.handle = attr.handle;
	number++;
	cr_assert_eq(ask(&commit, false), 0);
	begin_long(&begin_, &attr);
	commit.args.size.handle = attr.handle;
	number = 2;
	cr_assert_eq(ask(&commit, true), 0, "it has its receipt");
	send_call(&commit, true, false);
	fab_cancel(conn, &commit);
	fab_flush(conn);
	while (fab_poll(conn, clock_now_ns(), &done, 1) == 0)
		usleep(100);
	number = 10;
	cr_assert_eq(ask(&commit, false), 0, "it is there, and nobody has it");

	begin_long(&begin_, &attr);
	commit.args.size.handle = attr.handle;
	number = 10;
	cr_assert_eq(ask(&commit, true), 0);
	fab_close(conn);
	conn = NULL;
	end();
}

/* Another client, though its id is the same, or no client at all. */
BOTH(a_receipt_is_for_who_proves_the_same_key_and_id)
{
	struct fab_call make = { .type = FAB_MKDIR };

	client = app_rig_begin_over(&rig, way->transport);
	connect_again(1);
	make.args.make.name = path("/d");
	number = 1;
	cr_assert_eq(ask(&make, false), 0);
	connect_again(2);
	cr_assert_eq(ask(&make, true), -ECONNRESET); /* a stranger, who is not sure */
	send_call(&make, true, true);
	cr_assert_eq(wait_for(&make), -EEXIST);
	connect_again(0);
	cr_assert_eq(ask(&make, true), -EEXIST); /* no id: an ordinary request */
	fab_close(conn);
	conn = NULL;
	end();
}

/* ---- a client of the library, whose sessions somebody else ends all the time ---------------- */

enum { RECORDS = 100000, RECORD_BYTES = 200, FLIGHT = 8, CUTS = 12 };

static _Atomic uint32_t cuts;

static void *cut_thread(void *arg)
{
	struct fab_connect_cfg cfg = { .address = fab_server_address(rig.srv, 0),
				       .key = { .id = "weka" } };
	const struct weka_client *c = arg;
	struct rand_state rand;

	rand_seed(&rand, 1);
	memcpy(cfg.key.secret, app_rig_secret, FAB_KEY_BYTES);
	memcpy(cfg.client_id, c->id, sizeof(cfg.client_id));
	while (atomic_load(&cuts) < CUTS) {
		struct fab_conn *other;

		usleep(20000 + (useconds_t)rand_below(&rand, 100000));
		if (fab_connect(&other, &cfg, clock_now_ns()) == 0)
			while (fab_connect_step(other, clock_now_ns()) == -EINPROGRESS)
				usleep(50);
		if (fab_conn_status(other) == 0)
			atomic_fetch_add(&cuts, 1);
		fab_close(other);
	}
	return NULL;
}

static void record_of(uint32_t i, char *out)
{
	memset(out, 'a' + (int)(i % 26), RECORD_BYTES);
	snprintf(out, 16, "record %07u", i);
}

static uint32_t lost; /* that ended with -ECONNRESET */

static bool more(uint32_t next)
{
	return next < RECORDS && atomic_load(&cuts) < CUTS;
}

static uint32_t append_all(struct weka_client *c, const struct weka_handle *h, uint8_t *state)
{
	struct weka_req req[FLIGHT] = { 0 }, *done[FLIGHT];
	struct weka_window w[FLIGHT];
	uint32_t at[FLIGHT], next = 0, out = 0;

	for (uint32_t i = 0; i < FLIGHT; i++) {
		w[i] = (struct weka_window){ .size_bytes = 4096 };
		cr_assert_eq(weka_lease(c, 4096, &w[i].lease), 0);
		req[i].user = (void *)1;
	}
	while (more(next) || out > 0) {
		int n;

		for (uint32_t i = 0; i < FLIGHT && more(next); i++) {
			if (req[i].user != (void *)1)
				continue;
			at[i] = next;
			record_of(next, w[i].lease->data);
			if (weka_submit_write(c, &req[i], h, 0, RECORD_BYTES, WEKA_APPEND, &w[i]))
				break;
			req[i].user = NULL;
			next++;
			out++;
		}
		n = weka_reap(c, done, FLIGHT);
		cr_assert_geq(n, 0);
		for (int k = 0; k < n; k++) {
			uint32_t i = (uint32_t)(done[k] - req);

			cr_assert(done[k]->status == 0 || done[k]->status == -ECONNRESET, "%d",
				  done[k]->status);
			state[at[i]] = done[k]->status == 0;
			lost += done[k]->status != 0;
			done[k]->user = (void *)1;
			out--;
		}
		if (n == 0)
			(void)!weka_wait(c, NS_PER_S);
	}
	for (uint32_t i = 0; i < FLIGHT; i++)
		weka_release(c, w[i].lease);
	return next;
}

BOTH(appends_under_sessions_that_break_all_the_time_are_made_once)
{
	struct weka_options options = { .size_bytes = sizeof(options), .pool_bytes = 2 << 20 };
	struct weka_key key = { .id = "weka", .secret = app_rig_secret };
	struct weka_counters counters = { .size_bytes = sizeof(counters) };
	uint32_t count;
	uint8_t *state = calloc(1, RECORDS), *seen = calloc(1, RECORDS);
	struct weka_client *writer;
	struct weka_attr attr;
	pthread_t cutter;
	void *got;
	size_t size;

	client = app_rig_begin_over(&rig, way->transport);
	cr_assert_eq(weka_write_file(client, "/log", "", 0, NULL), 0);
	cr_assert_eq(weka_stat(client, "/log", &attr), 0);
	cr_assert_eq(weka_connect(fab_server_address(rig.srv, 0), &key, &options, &writer), 0);
	cr_assert_eq(pthread_create(&cutter, NULL, cut_thread, writer), 0);
	count = append_all(writer, &attr.handle, state);
	atomic_store(&cuts, CUTS);
	pthread_join(cutter, NULL);
	cr_assert_eq(weka_get_counters(writer, &counters), 0);
	weka_close(writer);
	cr_assert_eq(weka_read_file(client, "/log", &got, &size), 0);
	cr_assert_eq(size % RECORD_BYTES, 0);
	for (size_t at = 0; at < size; at += RECORD_BYTES) {
		char want[RECORD_BYTES];
		uint32_t i = (uint32_t)atoi((char *)got + at + 7);

		cr_assert_lt(i, RECORDS);
		record_of(i, want);
		cr_assert_arr_eq((char *)got + at, want, RECORD_BYTES);
		seen[i]++;
	}
	for (uint32_t i = 0; i < count; i++) {
		cr_assert_leq(seen[i], 1, "record %u stands there %u times", i, seen[i]);
		cr_assert(seen[i] || !state[i], "record %u was acknowledged, and is not there", i);
	}
	/* A request that meets four cuts may end so; it is not what usually happens. */
	cr_assert_leq(lost, 3 * FLIGHT, "%u of %u: nobody knows", lost, count);
	cr_assert_gt(counters.replays, 0, "%u appends, %llu reconnects", count,
		     (unsigned long long)counters.reconnects);
	free(got);
	free(state);
	free(seen);
	end();
}

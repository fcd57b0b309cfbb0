/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Receipts: whatever comes in between (power cuts, kills, clean stops, checkpoints), a change was
 * made exactly if its receipt says so, and the newest of each slot is known.
 */
#include "test/lib/meta_rig.h"
#include "test/lib/runs.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CLIENTS 5u
#define SLOTS   3u
#define BASE    0x1234567800000000ull

static struct rig r;

TestSuite(meta_receipt, .timeout = 120);

static void store(uint64_t seed)
{
	rig_make(&r, seed, 2, 4u << 20, 4, true);
	cr_assert_eq(rig_format(&r), 0);
}

static struct meta_receipt_id id_of(uint64_t client, uint32_t slot, uint64_t number)
{
	return (struct meta_receipt_id){ .client = client,
					 .slot = (uint16_t)slot,
					 .number = number };
}

static int run(enum meta_op_type type, const char *path, const struct meta_receipt_id *id,
	       struct meta_handle *handle)
{
	struct meta_op op = {
		.type = type,
		.target = { .path = path, .path_len = (uint32_t)strlen(path) },
		.wall_ns = 1,
	};
	int err;

	if (id)
		op.receipt = *id;
	err = rig_run(&r, &op);
	if (handle)
		*handle = op.attr.handle;
	return err ? err : op.status;
}

static int recall(struct meta_receipt_id id, struct meta_handle *handle)
{
	struct meta_op op = { .type = META_OP_RECALL, .receipt = id };

	cr_assert_eq(rig_run(&r, &op), op.status);
	if (handle)
		*handle = op.attr.handle;
	return op.status;
}

static bool is_there(const char *path)
{
	int err = run(META_OP_STAT, path, NULL, NULL);

	cr_assert(err == 0 || err == -ENOENT, "%s: %d", path, err);
	return err == 0;
}

/* ---- a model of random changes -------------------------------------------------------------- */

struct place {            /* of one slot of one client */
	uint64_t made;    /* acknowledged: its directory is there */
	uint64_t pending; /* may have been made; 0: none */
	struct meta_handle handle;
};

static struct place model[CLIENTS][SLOTS];

static void path_of(uint32_t c, uint32_t s, uint64_t number, char path[64])
{
	(void)snprintf(path, 64, "/%u.%u.%llu", c, s, (unsigned long long)number);
}

/* The next change of a slot, mkdir, and a change that nobody asks for again.  False: cut. */
static bool work(struct rand_state *rand)
{
	uint32_t c = (uint32_t)rand_below(rand, CLIENTS), s = (uint32_t)rand_below(rand, SLOTS);
	struct place *p = &model[c][s];
	struct meta_receipt_id id = id_of(BASE + c, s, p->made + 1 + rand_below(rand, 3));
	struct meta_handle handle;
	char path[64];
	int err;

	path_of(c, s, p->made, path);
	if (p->made && run(META_OP_RMDIR, path, NULL, NULL) == -ECANCELED)
		return false;
	path_of(c, s, id.number, path);
	p->pending = id.number;
	err = run(META_OP_MKDIR, path, &id, &handle);
	if (err == -ECANCELED)
		return false;
	p->handle = handle;
	cr_assert_eq(err, 0, "%s: %d", path, err);
	p->made = p->pending;
	p->pending = 0;
	return !r.cut;
}

static void look(uint32_t c, uint32_t s)
{
	struct place *p = &model[c][s];
	struct meta_handle handle;
	char path[64];
	int err;

	if (p->pending) {
		path_of(c, s, p->pending, path);
		err = recall(id_of(BASE + c, s, p->pending), &handle);
		if (!p->made && err == -ECONNRESET) /* the client may never have had a change */
			cr_assert_not(is_there(path));
		else
			cr_assert_eq(err, is_there(path) ? 0 : -ENOENT, "%s: %d", path, err);
		if (err == 0) {
			p->made = p->pending;
			p->handle = handle;
		}
		p->pending = 0;
	}
	if (!p->made)
		return;
	cr_assert_eq(recall(id_of(BASE + c, s, p->made), &handle), 0, "%u.%u.%llu", c, s,
		     (unsigned long long)p->made);
	cr_assert_arr_eq(&handle, &p->handle, sizeof(handle));
	cr_assert_eq(recall(id_of(BASE + c, s, p->made + 1), NULL), -ENOENT);
	cr_assert_eq(recall(id_of(BASE + c, s, p->made - 1), NULL), -ECONNRESET);
}

static void look_at_all(void)
{
	for (uint32_t c = 0; c < CLIENTS; c++)
		for (uint32_t s = 0; s < SLOTS; s++)
			look(c, s);
}

/* A cut or a kill at some write, or a clean stop; then a mount, perhaps cut too. */
static void crash(struct rand_state *rand, bool cut)
{
	if (cut || rand_below(rand, 3) == 0) {
		rig_power_cut(&r);
	} else if (rand_below(rand, 2)) {
		rig_kill(&r);
	} else {
		cr_assert_eq(rig_stop(&r), 0, "%s", meta_error(r.m));
	}
	if (rand_below(rand, 3) == 0) {
		r.cut_at = r.writes + 1 + rand_below(rand, 40);
		if (rig_mount(&r) != 0 || r.cut)
			rig_power_cut(&r);
		else
			rig_kill(&r);
	}
	r.cut_at = 0;
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
}

Test(meta_receipt, a_change_was_made_exactly_if_its_receipt_says_so)
{
	for (uint64_t seed = 1; seed <= test_runs(12); seed++) {
		struct rand_state rand;

		rand_seed(&rand, seed);
		memset(model, 0, sizeof(model));
		store(seed);
		r.cut_garbles = seed % 2;
		for (uint32_t round = 0; round < test_runs(12); round++) {
			uint64_t works = rand_below(&rand, 150);
			bool cut = false;

			if (rand_below(&rand, 2))
				r.cut_at = r.writes + 1 + rand_below(&rand, 2 * works + 2);
			while (works-- > 0 && !cut)
				cut = !work(&rand);
			crash(&rand, cut || r.cut);
			look_at_all();
		}
		cr_assert_eq(rig_stop(&r), 0);
		rig_end(&r);
	}
}

/* ---- one at a time -------------------------------------------------------------------------- */

static void make(struct meta_receipt_id id)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/%llx.%u.%u.%llu", (unsigned long long)id.client,
		       id.slot, id.item, (unsigned long long)id.number);
	cr_assert_eq(run(META_OP_MKDIR, path, &id, NULL), 0);
}

static void again(void)
{
	cr_assert_eq(rig_stop(&r), 0);
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
}

Test(meta_receipt, items_of_a_batch_are_known_one_by_one)
{
	struct meta_receipt_id id = id_of(BASE, 7, 3);

	store(1);
	for (id.item = 0; id.item < 1000; id.item += 3)
		make(id);
	for (uint32_t round = 0; round < 3; round++) {
		for (id.item = 0; id.item < 1002; id.item++)
			cr_assert_eq(recall(id, NULL), id.item % 3 ? -ENOENT : 0, "%u", id.item);
		again();
	}
	id.number = 4;
	id.item = 5;
	make(id);
	cr_assert_eq(recall(id, NULL), 0);
	id.item = 6;
	cr_assert_eq(recall(id, NULL), -ENOENT);
	id.number = 3;
	cr_assert_eq(recall(id, NULL), -ECONNRESET);
	rig_stop(&r);
	rig_end(&r);
}

Test(meta_receipt, what_was_made_in_part_is_not_known)
{
	struct meta_receipt_id id = id_of(BASE, 0, 1);

	store(1);
	id.part = true;
	make(id);
	again();
	cr_assert_eq(recall(id_of(BASE, 0, 1), NULL), -ECONNRESET);
	id.part = false;
	id.item = 0;
	cr_assert_eq(run(META_OP_MKDIR, "/rest", &id, NULL), 0);
	again();
	cr_assert_eq(recall(id_of(BASE, 0, 1), NULL), 0);
	rig_stop(&r);
	rig_end(&r);
}

/* A failure changes nothing, and is not remembered: it may be tried again. */
Test(meta_receipt, a_change_that_failed_leaves_no_receipt)
{
	struct meta_receipt_id id = id_of(BASE, 0, 1);

	store(1);
	make(id);
	id.number = 2;
	cr_assert_eq(run(META_OP_RMDIR, "/nothing", &id, NULL), -ENOENT);
	cr_assert_eq(recall(id, NULL), -ENOENT);
	rig_stop(&r);
	rig_end(&r);
}

/* A request that changes nothing is remembered, too: later it might change something. */
Test(meta_receipt, a_change_of_nothing_leaves_one)
{
	struct meta_receipt_id id = id_of(BASE, 0, 1);
	struct meta_op op = {
		.type = META_OP_RENAME,
		.target = { .path = "/a", .path_len = 2 },
		.other = { .path = "/a", .path_len = 2 },
		.receipt = id,
	};

	store(1);
	cr_assert_eq(rig_put(&r, "/a", 0, 1), 0);
	cr_assert_eq(rig_run(&r, &op), 0);
	again();
	cr_assert_eq(recall(id, NULL), 0);
	rig_stop(&r);
	rig_end(&r);
}

static struct meta_receipt_id sure_of(uint64_t client, uint64_t forgotten)
{
	struct meta_receipt_id id = id_of(client, 0, 1);

	id.sure = true;
	id.forgotten = forgotten;
	return id;
}

Test(meta_receipt, of_a_stranger_nothing_is_known_unless_nobody_was_forgotten)
{
	uint64_t forgotten;

	store(1);
	forgotten = meta_clients_forgotten(r.m);
	cr_assert_eq(recall(id_of(BASE, 0, 1), NULL), -ECONNRESET);
	cr_assert_eq(recall(sure_of(BASE, forgotten), NULL), -ENOENT);
	make(id_of(BASE, 0, 1));
	cr_assert_eq(recall(sure_of(BASE, forgotten), NULL), 0);
	cr_assert_eq(meta_clients_forgotten(r.m), forgotten);
	meta_clients_age(r.m);
	meta_clients_age(r.m);
	cr_assert_eq(recall(sure_of(BASE, forgotten), NULL), 0); /* a sign of it */
	meta_clients_age(r.m);
	meta_clients_age(r.m);
	meta_client_keep(r.m, BASE); /* another */
	meta_clients_age(r.m);
	meta_clients_age(r.m);
	cr_assert_eq(meta_clients_forgotten(r.m), forgotten);
	meta_clients_age(r.m);
	cr_assert_gt(meta_clients_forgotten(r.m), forgotten);
	cr_assert_leq(meta_clients_forgotten(r.m), meta_durable_seq(r.m));
	cr_assert_eq(recall(sure_of(BASE, forgotten), NULL), -ECONNRESET);
	cr_assert_eq(recall(sure_of(BASE, meta_clients_forgotten(r.m)), NULL), -ENOENT);
	rig_stop(&r);
	rig_end(&r);
}

/* A client that was forgotten, and comes back with a later change, is known only from then on. */
Test(meta_receipt, of_a_slot_without_a_change_no_more_is_known_than_of_a_stranger)
{
	uint64_t forgotten;

	store(1);
	forgotten = meta_clients_forgotten(r.m);
	make(id_of(BASE, 0, 1));
	while (meta_clients_forgotten(r.m) == forgotten)
		meta_clients_age(r.m);
	make(id_of(BASE, 1, 2));
	cr_assert_eq(recall(id_of(BASE, 0, 1), NULL), -ECONNRESET, "it was made");
	cr_assert_eq(recall(sure_of(BASE, forgotten), NULL), -ECONNRESET);
	cr_assert_eq(recall(sure_of(BASE, meta_clients_forgotten(r.m)), NULL), -ENOENT);
	cr_assert_eq(recall(id_of(BASE, 1, 3), NULL), -ENOENT, "a slot that has one");
	rig_stop(&r);
	rig_end(&r);
}

/* After a crash, too, no client that was here is called unknown. */
Test(meta_receipt, what_was_forgotten_is_not_forgotten)
{
	uint64_t mark, forgotten;

	store(1);
	make(id_of(BASE, 0, 1));
	make(id_of(BASE + 1, 0, 1));
	mark = meta_durable_seq(r.m);
	for (uint32_t i = 0; i < 3; i++) {
		meta_client_keep(r.m, BASE + 1);
		meta_clients_age(r.m);
	}
	forgotten = meta_clients_forgotten(r.m);
	cr_assert_geq(forgotten, mark);
	for (uint32_t i = 0; i < 4; i++) {
		again();
		cr_assert_geq(meta_clients_forgotten(r.m), forgotten);
		cr_assert_eq(recall(id_of(BASE + 1, 0, 1), NULL), 0);
		cr_assert_eq(recall(id_of(BASE, 0, 1), NULL), -ECONNRESET);
	}
	/* A client that has come since may say that it is new. */
	cr_assert_leq(meta_clients_forgotten(r.m), meta_durable_seq(r.m));
	rig_stop(&r);
	rig_end(&r);
}

/* There are at most 227 receipts: the client not heard of for longest loses its own.  Returns how
 * many did. */
static uint32_t more_than_there_is_room_for(uint64_t seed)
{
	struct meta_receipt_id id = id_of(BASE, 0, 1), first = id_of(BASE + 1, 5, 9);
	uint32_t lost = 0;

	store(seed);
	make(first);
	for (id.item = 0; id.item < 1023; id.item++)
		make(id);
	cr_assert_eq(recall(first, NULL), -ECONNRESET);
	first.number++;
	cr_assert_eq(recall(first, NULL), -ENOENT);
	for (uint32_t round = 0; round < 2; round++) {
		for (id.item = 0; id.item < 1023; id.item++) {
			int err = recall(id, NULL);

			cr_assert(err == 0 || err == -ECONNRESET);
			lost += err != 0;
		}
		again();
	}
	id.item = 1022;
	cr_assert_eq(recall(id, NULL), 0);
	cr_assert_eq(recall(first, NULL), -ENOENT);
	first.number--;
	cr_assert_eq(recall(first, NULL), -ECONNRESET);
	rig_stop(&r);
	rig_end(&r);
	return lost;
}

Test(meta_receipt, with_no_room_left_it_says_that_it_does_not_know)
{
	cr_assert_gt(more_than_there_is_room_for(1), 0);
}

/* With these a checkpoint waits for a zone of the log between two records of one slot: it had
 * written the first one again in each turn, until the log was full, and all was forgotten. */
Test(meta_receipt, a_slot_of_many_is_carried_over_once)
{
	cr_assert_gt(more_than_there_is_room_for(32), 0);
	cr_assert_gt(more_than_there_is_room_for(44), 0);
}

Test(meta_receipt, of_too_many_clients_the_oldest_is_forgotten)
{
	uint64_t forgotten;

	store(1);
	for (uint32_t i = 0; i < 2000; i++)
		make(id_of(BASE + i, 0, 1));
	forgotten = meta_clients_forgotten(r.m);
	cr_assert_gt(forgotten, 0);
	cr_assert_eq(recall(id_of(BASE, 0, 1), NULL), -ECONNRESET);
	cr_assert_eq(recall(id_of(BASE + 1999, 0, 1), NULL), 0);
	again();
	cr_assert_geq(meta_clients_forgotten(r.m), forgotten);
	cr_assert_eq(recall(id_of(BASE + 1999, 0, 1), NULL), 0);
	rig_stop(&r);
	rig_end(&r);
}

/* However often the log is trimmed, it stays small, and what an idle client had stays known. */
Test(meta_receipt, an_idle_client_is_carried_along)
{
	struct meta_statfs s;
	struct meta_op op = { .type = META_OP_STATFS, .statfs = &s };

	store(3);
	make(id_of(BASE, 9, 77));
	for (uint32_t i = 1; i < 6000; i++) {
		struct meta_receipt_id id = id_of(BASE + 1, i % 64, i);

		cr_assert_eq(run(META_OP_MKDIR, "/d", &id, NULL), 0);
		cr_assert_eq(run(META_OP_RMDIR, "/d", NULL, NULL), 0);
	}
	cr_assert_eq(rig_run(&r, &op), 0);
	cr_assert_gt(s.checkpoints, 5);
	cr_assert_eq(recall(id_of(BASE, 9, 77), NULL), 0);
	rig_power_cut(&r);
	cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
	cr_assert_eq(recall(id_of(BASE, 9, 77), NULL), 0);
	cr_assert_eq(recall(id_of(BASE, 9, 78), NULL), -ENOENT);
	rig_stop(&r);
	rig_end(&r);
}

/* At any write of a mount, whichever of them the drives like best. */
Test(meta_receipt, a_mount_that_is_cut_off_loses_none)
{
	store(5);
	make(id_of(BASE, 9, 77));
	cr_assert_eq(rig_stop(&r), 0);
	for (uint32_t round = 0; round < test_runs(800); round++) {
		r.lifo = round / 40 % 4 == 0;
		r.cut_spoils = round / 40 % 3;
		r.cut_at = r.writes + 1 + round % 40;
		if (rig_mount(&r) == 0 && !r.cut)
			rig_kill(&r);
		else
			rig_power_cut(&r);
		r.cut_at = 0;
		cr_assert_eq(rig_mount(&r), 0, "%s", meta_error(r.m));
		cr_assert_eq(recall(id_of(BASE, 9, 77), NULL), 0, "cut at write %u", round % 40);
		rig_kill(&r);
	}
	cr_assert_eq(rig_mount(&r), 0);
	rig_stop(&r);
	rig_end(&r);
}

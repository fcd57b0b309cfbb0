/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Tracks records with changes that are not durable yet.
 *
 * A page records only its last change, whichever record that was about.  A reader of a record must
 * not answer before the record's own last change is durable, but need not wait for its neighbours';
 * while a drive takes no writes that wait lasts seconds.
 *
 *	apply --note(key, seq)--> slot[hash of key], slot[hash of its group]
 *	look  --seq(key, last)--> the highest sequence of all records from key to last, or higher
 *
 *  (1) A slot is at least the sequence of each logged change of each record that hashes to it,
 *      but for (6).  So two records that share a slot can cause an unnecessary wait, never a
 *      missing one.
 *  (2) A group is all records of a directory with one hash and class: those of one name, or of one
 *      object, which is the range of a seek.  A wider range has the page's sequence
 *      [test_meta_tx:who_looks_through_more_than_one_name_waits_for_the_last_change_of_the_leaf].
 *  (3) A lent shard is changed elsewhere: its `floor` applies to all of its records, from
 *      the moment at which their log block is known.
 *  (4) A zone's count of live blocks is not noted, and has its page's sequence: no answer to a
 *      client depends on one, and every write and removal changes one.
 *  (5) The store's thread writes.  A reader reads open shards, which do not change
 *      meanwhile, and all of whose changes were noted before they were opened (meta_share.c T1).
 *  (6) Totals that are passed up are not noted: they follow from what clients changed, and a mount
 *      passes them up again.  So while the log takes nothing, nobody waits for a change that no
 *      client made [test_meta_tx:who_looks_does_not_wait_for_totals_that_are_passed_up].
 */
#ifndef META_FRESH_H
#define META_FRESH_H

#include "meta/meta_internal.h"

/* A record was changed by the log block `seq`; 0: by none, as in a replay.  The store's thread. */
void meta__fresh_note(struct meta *m, uint32_t shard, const struct meta_key *key, uint64_t seq);
/* The same of whatever a borrower has changed in its shard. */
void meta__fresh_note_shard(struct meta *m, uint32_t shard, uint64_t seq);
/* All up to seq is durable. */
void meta__fresh_durable(struct meta *m, uint64_t seq);

/* Returns an upper bound of the last change of the records from key to last, seen in pages whose
 * last change was `seq`; `seq` itself if that is durable, or nothing better is known.  Any thread
 * between enter and leave. */
uint64_t meta__fresh_seq(const struct meta *m, uint32_t shard, const struct meta_key *key,
			 const struct meta_key *last, uint64_t seq);

#endif

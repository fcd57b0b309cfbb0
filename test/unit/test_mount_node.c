/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The table of inodes: one node a file, freed with its last lookup, by several threads at once. */
#include "client-lib/mount/mount.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

#define FILES   5000u
#define THREADS 4u

static struct mount_nodes nodes;

static void setup(void)
{
	memset(&nodes, 0, sizeof(nodes));
	cr_assert_eq(mount_nodes_create(&nodes), 0);
}

static void teardown(void)
{
	mount_nodes_destroy(&nodes);
}

TestSuite(mount_node, .init = setup, .fini = teardown);

static struct weka_attr attr_of(uint32_t i)
{
	struct weka_attr attr = { .ino = i, .mode = 0100600 + i % 8, .gid = i };

	memcpy(attr.handle.bytes, &i, sizeof(i));
	return attr;
}

static uint64_t count(void)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < MOUNT_PARTS; i++)
		sum += nodes.part[i].count;
	return sum;
}

Test(mount_node, a_file_has_one_node_until_its_last_lookup_is_forgotten)
{
	const struct weka_attr a = attr_of(7), b = attr_of(8);
	struct mount_node *first = mount_node_get(&nodes, &a), *other = mount_node_get(&nodes, &b);

	cr_assert_neq(first, other);
	cr_assert_eq(mount_node_get(&nodes, &a), first);
	cr_assert_eq(mount_node_get(&nodes, &a), first);
	cr_assert_eq(first->lookups, 3);
	cr_assert_eq(first->gid, 7);
	mount_node_forget(&nodes, first, 2);
	cr_assert_eq(count(), 2);
	mount_node_forget(&nodes, first, 1);
	cr_assert_eq(count(), 1);
	mount_node_forget(&nodes, other, 1);
	cr_assert_eq(count(), 0);
}

Test(mount_node, a_number_that_is_used_again_has_another_generation)
{
	const struct weka_attr a = attr_of(1);
	struct mount_node *node = mount_node_get(&nodes, &a);
	const uint64_t generation = node->generation;

	mount_node_forget(&nodes, node, 1);
	cr_assert_neq(mount_node_get(&nodes, &a)->generation, generation);
}

Test(mount_node, more_lookups_than_there_are_is_a_mistake, .signal = SIGABRT)
{
	const struct weka_attr a = attr_of(1);

	mount_node_forget(&nodes, mount_node_get(&nodes, &a), 2);
}

Test(mount_node, the_table_grows_and_shrinks)
{
	static struct mount_node *node[FILES];

	for (uint32_t i = 0; i < FILES; i++) {
		const struct weka_attr a = attr_of(i);

		node[i] = mount_node_get(&nodes, &a);
	}
	cr_assert_eq(count(), FILES);
	for (uint32_t i = 0; i < FILES; i++) {
		const struct weka_attr a = attr_of(i);

		cr_assert_eq(mount_node_get(&nodes, &a), node[i]);
		mount_node_forget(&nodes, node[i], 2);
	}
	cr_assert_eq(count(), 0);
}

/* Each thread gets and forgets the same files. */
static void *churn(void *of)
{
	for (uint32_t turn = 0; turn < 20; turn++)
		for (uint32_t i = 0; i < 200; i++) {
			const struct weka_attr a = attr_of(i * 13);
			struct mount_node *node = mount_node_get(of, &a);

			if (memcmp(&node->handle, &a.handle, sizeof(a.handle)) != 0)
				return of;
			mount_node_forget(of, node, 1);
		}
	return NULL;
}

Test(mount_node, threads_share_it)
{
	pthread_t thread[THREADS];
	void *wrong;

	for (uint32_t i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, churn, &nodes), 0);
	for (uint32_t i = 0; i < THREADS; i++) {
		cr_assert_eq(pthread_join(thread[i], &wrong), 0);
		cr_assert_null(wrong);
	}
	cr_assert_eq(count(), 0);
}

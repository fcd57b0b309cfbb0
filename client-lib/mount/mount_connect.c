/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The sessions of the workers, and the directory that is mounted.
 *
 * All workers use the handles that any of them got.  Those of a key that is confined to a subtree,
 * or that has a user, are good in one client's sessions only.  Such a mount has one worker; the
 * second session shows it, since its handle of the root is another one.
 */
#include "client-lib/mount/mount.h"

#include "base/clock.h"
#include "base/num.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define POOL_BYTES (32ull << 20)
/* Each request waits for the appliance until its own deadline. */
#define RECONNECT_NS (1000ull * 24 * 3600 * NS_PER_S)
#define OPENS_MAX    16384u
#define THREADS_OWN  4u /* as many workers as cores, but no more than this */

static int connect_one(const struct mount_fs *fs, struct weka_client **out)
{
	const struct mount_args *a = &fs->args;
	static const char nothing[32];
	const struct weka_key by_file = { .id = a->key_id, .file = a->key_file };
	const struct weka_key root = { .id = "@root", .secret = nothing };
	const struct weka_options options = {
		.size_bytes = sizeof(options),
		.requests_max = MOUNT_OPS,
		.pool_bytes = POOL_BYTES,
		.timeout_ns = a->timeout_ns,
		.reconnect_ns = RECONNECT_NS,
		.opens_max = OPENS_MAX,
	};
	const struct weka_key *key = a->anonymous ? NULL : a->key_file ? &by_file : &root;

	ASSERT(options.requests_max >= MOUNT_OPS); /* mount_worker.c (4) */
	return weka_connect(a->addresses, key, &options, out);
}

static int find_root(const struct mount_fs *fs, struct weka_client *client, struct weka_attr *attr)
{
	int err = weka_stat(client, fs->args.root, attr);

	if (!err && !S_ISDIR(attr->mode))
		err = -ENOTDIR;
	if (err)
		fprintf(stderr, "weka-mount: %s of the appliance: %s\n", fs->args.root,
			err == -ENOTDIR ? strerror(ENOTDIR) : weka_error(client));
	return err;
}

/* Returns true if the handles of the first session are good in this one, too. */
static bool shares_handles(const struct mount_fs *fs, struct weka_client *client)
{
	struct weka_attr attr;

	return find_root(fs, client, &attr) == 0 &&
	       memcmp(&attr.handle, &fs->root_attr.handle, sizeof(attr.handle)) == 0;
}

static int connect_more(struct mount_fs *fs, uint32_t count)
{
	while (fs->worker_count < count) {
		struct weka_client *client;
		int err = connect_one(fs, &client);

		if (err == -EUSERS || err == -ENOSPC) /* the appliance has no room for more */
			return 0;
		if (err)
			return err;
		if (!shares_handles(fs, client)) {
			weka_close(client);
			return 0;
		}
		fs->worker[fs->worker_count].client = client;
		fs->worker[fs->worker_count].index = fs->worker_count;
		fs->worker_count++;
	}
	return 0;
}

int mount_connect(struct mount_fs *fs)
{
	const long cores = sysconf(_SC_NPROCESSORS_ONLN);
	uint32_t count = fs->args.threads;
	int err = connect_one(fs, &fs->worker[0].client);

	if (err) {
		fprintf(stderr, "weka-mount: %s\n", weka_error(NULL));
		return err;
	}
	fs->worker_count = 1;
	err = find_root(fs, fs->worker[0].client, &fs->root_attr);
	if (!count)
		count = min_u32(cores > 0 ? (uint32_t)cores : 1, THREADS_OWN);
	if (!err)
		err = mount_nodes_create(&fs->nodes);
	if (!err)
		err = mount_ahead_create(fs);
	if (!err) {
		fs->root = mount_node_get(&fs->nodes, &fs->root_attr);
		err = fs->root ? connect_more(fs, count) : -ENOMEM;
	}
	return err;
}

void mount_disconnect(struct mount_fs *fs)
{
	for (uint32_t i = 0; i < fs->worker_count; i++)
		weka_close(fs->worker[i].client);
	mount_ahead_destroy(fs);
	mount_nodes_destroy(&fs->nodes);
}

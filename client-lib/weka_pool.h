/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * libweka-client - pools of the caller's memory.  Part of weka_client.h: include that header.
 *
 *	int fd = memfd_create("batches", MFD_ALLOW_SEALING | MFD_CLOEXEC);
 *	const struct weka_memory memory = { WEKA_MEMORY_FD, fd, NULL, 64 << 20 };
 *
 *	ftruncate(fd, 64 << 20);
 *	weka_pool_add(client, &memory, &pool);
 *	weka_pool_lease(client, pool, 2 << 20, &lease);
 */
#ifndef WEKA_POOL_H
#define WEKA_POOL_H

#include "weka_client.h"

#ifdef __cplusplus
extern "C" {
#endif

struct weka_pool; /* opaque */

/* Memory of the caller's, for weka_pool_add(). */
enum weka_memory_kind {
	WEKA_MEMORY_HOST,   /* ordinary memory at `data` */
	WEKA_MEMORY_FD,     /* a memfd */
	WEKA_MEMORY_DMABUF, /* memory of a device: always -EOPNOTSUPP in this version */
};
#define WEKA_POOL_UNIT (2u << 20)
struct weka_memory {
	uint32_t kind;       /* enum weka_memory_kind */
	int32_t fd;          /* WEKA_MEMORY_FD, which stays the caller's */
	void *data;          /* a multiple of 4096; FD: a shared mapping of all of it, or NULL: the
				library maps it */
	uint64_t size_bytes; /* a multiple of WEKA_POOL_UNIT; FD: the size of the file */
	uint64_t reserved[4];
};

/**
 * weka_pool_add - make memory of the caller's a pool, from which leases are cut
 *
 * Payload then lands in memory that the caller has chosen: page-locked for a GPU, shared with other
 * processes, or part of a tensor.  Over tcp and rdma any memory will do.  Over shm the appliance
 * maps it, so it must be a memfd of ordinary pages (not MFD_HUGETLB); its size is sealed
 * (F_SEAL_SHRINK and F_SEAL_GROW), if it is not already.  The memory counts towards
 * session_pools_max of the appliance, and after a reconnect the library offers it again.  A pool of
 * ordinary memory keeps the client from going on over shm.
 *
 * Owns:    the memory stays the caller's, who must not unmap it before weka_close(), nor change
 *          bytes of leases that requests use.  *out is the library's, until weka_close().
 * Thread:  the client's.  Waits, at most options.timeout_ns.
 * Errors:  -EINVAL (an address, size or descriptor that cannot be used: weka_error() says why),
 *          -EBADF, -EOPNOTSUPP (ordinary memory over shm; memory of a device; an older appliance),
 *          -ENOSPC (the appliance grants no more, or there are 7 pools), -ENOMEM, -ETIMEDOUT.
 */
WEKA_MUST_CHECK int weka_pool_add(struct weka_client *client, const struct weka_memory *memory,
				  struct weka_pool **out);
/* As weka_lease(), from this pool.  Errors: also -EINVAL (not a pool of this client). */
WEKA_MUST_CHECK int weka_pool_lease(struct weka_client *client, struct weka_pool *pool,
				    uint64_t size_bytes, struct weka_lease **out);

#ifdef __cplusplus
}
#endif
#endif

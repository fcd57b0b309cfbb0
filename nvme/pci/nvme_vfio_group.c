/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Groups of devices, and the container whose IOMMU mappings they share.
 *
 *   struct nvme_dma --target--> container ---- group 12 ---- 0000:01:00.0
 *     all mappings               type 1 v2  \              \ 0000:01:00.1
 *                                            \-- group 13 ---- 0000:02:00.0
 *
 * One container for all drives of a table: memory is pinned, and counted as locked, once.  Only
 * a group whose IOMMU differs too much gets a container of its own.
 *
 * Invariants, true between any two calls:
 *
 *  (1) A container has a group, a group has a device; the last one frees it.
 *  (2) A container attached to its table has mapped everything in the table
 *      [test_nvme_dma:target_is_told_of_what_there_was_and_of_what_comes,
 *      test_nvme_dma:target_that_refuses_what_there_is_gets_none_of_it].
 */
#include "nvme/pci/nvme_vfio.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/vfio.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define INFO_BYTES 4096u

struct container {
	struct nvme_dma_target target;
	struct list link;
	struct nvme_dma *dma;
	int fd;
	struct list groups;
};

struct nvme_vfio_group {
	struct list link;
	struct container *container;
	int id;
	int fd;
	struct list devices; /* struct nvme_vfio */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static struct list containers = { &containers, &containers };

/* Those that were left by a thread that may not call free(). */
static struct list dead_containers = { &dead_containers, &dead_containers };
static struct list dead_groups = { &dead_groups, &dead_groups };

/* ---- mappings of the table ------------------------------------------------------------- */

static int target_map(struct nvme_dma_target *target, uint64_t iova,
		      const struct nvme_dma_region *region)
{
	struct container *c = container_of(target, struct container, target);
	struct vfio_iommu_type1_dma_map map = {
		.argsz = sizeof(map),
		.flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE,
		.vaddr = (uintptr_t)region->addr,
		.iova = iova,
		.size = region->size_bytes,
	};
	struct nvme_memlock limit;
	char text[160];

	/* The IOMMU pins it: with a lock of our own it would count twice. */
	(void)munlock(region->addr, region->size_bytes);
	nvme__memlock_read(&limit, "/proc");
	if (!nvme__memlock_allows(&limit, region->size_bytes, text, sizeof(text))) {
		nvme__dma_say(c->dma, "%s", text);
		return -ENOMEM;
	}
	if (ioctl(c->fd, VFIO_IOMMU_MAP_DMA, &map) == 0)
		return 0;
	nvme__dma_say(c->dma, "the IOMMU does not map %llu KiB at %llx: %s",
		      (unsigned long long)region->size_bytes >> 10, (unsigned long long)iova,
		      strerror(errno));
	return -errno;
}

static void target_unmap(struct nvme_dma_target *target, uint64_t iova, uint64_t size_bytes)
{
	struct container *c = container_of(target, struct container, target);
	struct vfio_iommu_type1_dma_unmap unmap = { .argsz = sizeof(unmap),
						    .iova = iova,
						    .size = size_bytes };

	/* A mapping that stays would let a device write to memory that was reused. */
	ASSERT(ioctl(c->fd, VFIO_IOMMU_UNMAP_DMA, &unmap) == 0);
	ASSERT(unmap.size == size_bytes);
}

/* ---- a container's IOMMU --------------------------------------------------------------- */

static int reserve_gaps(struct container *c, const struct nvme_why *why)
{
	_Alignas(struct vfio_iommu_type1_info) char bytes[INFO_BYTES] = { 0 };
	struct vfio_iommu_type1_info info = { .argsz = sizeof(bytes) };

	memcpy(bytes, &info, sizeof(info));
	if (ioctl(c->fd, VFIO_IOMMU_GET_INFO, bytes))
		return nvme__why(why, -errno, "the IOMMU says nothing of itself: %s",
				 strerror(errno));
	return nvme__vfio_reserve(c->dma, bytes, sizeof(bytes), why);
}

/* Before it is pinned. */
static int check_memlock(uint64_t more_bytes, const struct nvme_why *why)
{
	struct nvme_memlock limit;
	char text[160];

	nvme__memlock_read(&limit, "/proc");
	if (!nvme__memlock_allows(&limit, more_bytes, text, sizeof(text)))
		return nvme__why(why, -ENOMEM, "%s", text);
	return 0;
}

static int join(struct container *c, int group_fd)
{
	return ioctl(group_fd, VFIO_GROUP_SET_CONTAINER, &c->fd) ? -errno : 0;
}

/* The container's first group is joined: now it has an IOMMU. */
static int start(struct container *c, uint64_t memory_bytes, const struct nvme_why *why)
{
	int err;

	if (ioctl(c->fd, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU))
		return nvme__why(why, -errno, "the IOMMU (vfio type 1 v2) does not take it: %s",
				 strerror(errno));
	err = reserve_gaps(c, why);
	if (!err)
		err = check_memlock(nvme__dma_mapped_bytes(c->dma) + memory_bytes, why);
	if (err)
		return err;
	err = nvme__dma_attach(c->dma, &c->target);
	return err ? nvme__why(why, err, "%s", nvme_dma_why(c->dma)) : 0;
}

static int open_container(int *fd, const struct nvme_why *why)
{
	*fd = open("/dev/vfio/vfio", O_RDWR | O_CLOEXEC);
	if (*fd < 0)
		return nvme__why(why, -errno, "/dev/vfio/vfio: %s%s", strerror(errno),
				 errno == ENOENT ? "; type: modprobe vfio-pci" : "");
	if (ioctl(*fd, VFIO_GET_API_VERSION) != VFIO_API_VERSION ||
	    ioctl(*fd, VFIO_CHECK_EXTENSION, VFIO_TYPE1v2_IOMMU) != 1) {
		close(*fd);
		return nvme__why(why, -ENOTSUP,
				 "vfio has no type 1 IOMMU; type: modprobe vfio_iommu_type1");
	}
	return 0;
}

static int container_create(struct nvme_dma *dma, int group_fd, uint64_t memory_bytes,
			    const struct nvme_why *why, struct container **out)
{
	struct container *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return nvme__why(why, -ENOMEM, "out of memory");
	c->dma = dma;
	c->target.map = target_map;
	c->target.unmap = target_unmap;
	list_init(&c->groups);
	list_init(&c->link);
	err = open_container(&c->fd, why);
	if (err)
		goto free_c;
	err = join(c, group_fd);
	if (err) {
		(void)nvme__why(why, err, "its IOMMU group does not join a container: %s",
				strerror(-err));
		goto close_fd;
	}
	err = start(c, memory_bytes, why);
	if (err)
		goto leave;
	list_push_back(&containers, &c->link);
	*out = c;
	return 0;

leave:
	(void)ioctl(group_fd, VFIO_GROUP_UNSET_CONTAINER);
close_fd:
	close(c->fd);
free_c:
	free(c);
	return err;
}

static void container_close(struct container *c)
{
	nvme__dma_detach(c->dma, &c->target);
	list_del(&c->link);
	close(c->fd); /* and with it go the mappings */
	list_push_back(&dead_containers, &c->link);
}

/* ---- groups ---------------------------------------------------------------------------- */

static int open_group(const struct nvme_pci *pci, const struct nvme_why *why)
{
	struct vfio_group_status status = { .argsz = sizeof(status) };
	char path[64], others[160];
	int fd;

	(void)snprintf(path, sizeof(path), "/dev/vfio/%d", pci->group);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 && errno == EBUSY)
		return nvme__why(why, -EBUSY,
				 "in use by another process, which has its IOMMU group open (%s)",
				 path);
	if (fd < 0 && errno == EACCES)
		return nvme__why(why, -EACCES, "%s: %s; type, as root: chown %u %s", path,
				 strerror(errno), geteuid(), path);
	if (fd < 0)
		return nvme__why(why, -errno, "%s: %s", path, strerror(errno));
	if (ioctl(fd, VFIO_GROUP_GET_STATUS, &status) == 0 &&
	    status.flags & VFIO_GROUP_FLAGS_VIABLE)
		return fd;
	close(fd);
	nvme__pci_neighbours(pci, "/sys", others, sizeof(others));
	return nvme__why(why, -EBUSY,
			 "its IOMMU group %d has devices that are not bound to vfio-pci: %s",
			 pci->group, *others ? others : "ls /sys/kernel/iommu_groups tells");
}

/* The group's fd joins a container of `dma`: one that there is, or a new one. */
static int enter(struct nvme_vfio_group *g, struct nvme_dma *dma, uint64_t memory_bytes,
		 const struct nvme_why *why)
{
	struct list *at;

	list_for_each (at, &containers) {
		struct container *c = list_entry(at, struct container, link);
		int err;

		ASSERT(!list_empty(&c->groups)); /* (1) */
		if (c->dma != dma || join(c, g->fd))
			continue;
		g->container = c;
		err = reserve_gaps(c, why); /* the group may have brought ranges of its own */
		if (!err)
			err = check_memlock(memory_bytes, why);
		if (err)
			(void)ioctl(g->fd, VFIO_GROUP_UNSET_CONTAINER);
		return err;
	}
	return container_create(dma, g->fd, memory_bytes, why, &g->container);
}

static struct nvme_vfio_group *find_group(const struct nvme_dma *dma, int id)
{
	struct list *at, *in;

	list_for_each (at, &containers) {
		struct container *c = list_entry(at, struct container, link);

		if (c->dma != dma)
			continue;
		list_for_each (in, &c->groups) {
			struct nvme_vfio_group *g = list_entry(in, struct nvme_vfio_group, link);

			ASSERT(!list_empty(&g->devices)); /* (1) */
			if (g->id == id)
				return g;
		}
	}
	return NULL;
}

static int group_create(struct nvme_vfio_group **out, const struct nvme_pci *pci,
			struct nvme_dma *dma, uint64_t memory_bytes, const struct nvme_why *why)
{
	struct nvme_vfio_group *g = calloc(1, sizeof(*g));
	int err;

	if (!g)
		return nvme__why(why, -ENOMEM, "out of memory");
	g->id = pci->group;
	g->fd = open_group(pci, why);
	err = g->fd < 0 ? g->fd : enter(g, dma, memory_bytes, why);
	if (err) {
		if (g->fd >= 0)
			close(g->fd);
		free(g);
		return err;
	}
	list_init(&g->link);
	list_init(&g->devices);
	list_push_back(&g->container->groups, &g->link);
	*out = g;
	return 0;
}

static bool has_device(const struct nvme_vfio_group *g, const char *address)
{
	struct list *at;

	list_for_each (at, &g->devices) {
		if (strcmp(list_entry(at, struct nvme_vfio, link)->address, address) == 0)
			return true;
	}
	return false;
}

static int join_locked(struct nvme_vfio *v, const struct nvme_pci *pci, struct nvme_dma *dma,
		       uint64_t memory_bytes, const struct nvme_why *why)
{
	struct nvme_vfio_group *g = find_group(dma, pci->group);
	int err = 0;

	if (g && has_device(g, pci->address))
		return nvme__why(why, -EBUSY, "its controller is already a drive of this process");
	if (!g)
		err = group_create(&g, pci, dma, memory_bytes, why);
	if (err)
		return err;
	v->group = g;
	(void)snprintf(v->address, sizeof(v->address), "%s", pci->address);
	list_init(&v->link);
	list_push_back(&g->devices, &v->link);
	return 0;
}

int nvme__vfio_join(struct nvme_vfio *v, const struct nvme_pci *pci, struct nvme_dma *dma,
		    uint64_t memory_bytes, const struct nvme_why *why)
{
	int err;

	pthread_mutex_lock(&lock);
	err = join_locked(v, pci, dma, memory_bytes, why);
	pthread_mutex_unlock(&lock);
	return err;
}

void nvme__vfio_leave(struct nvme_vfio *v)
{
	struct nvme_vfio_group *g = v->group;

	if (!g)
		return;
	pthread_mutex_lock(&lock);
	list_del(&v->link);
	v->group = NULL;
	if (list_empty(&g->devices)) {
		list_del(&g->link);
		close(g->fd);
		if (list_empty(&g->container->groups))
			container_close(g->container);
		list_push_back(&dead_groups, &g->link);
	}
	pthread_mutex_unlock(&lock);
}

void nvme__vfio_bury(void)
{
	pthread_mutex_lock(&lock);
	while (!list_empty(&dead_groups))
		free(list_entry(list_pop_front(&dead_groups), struct nvme_vfio_group, link));
	while (!list_empty(&dead_containers))
		free(list_entry(list_pop_front(&dead_containers), struct container, link));
	pthread_mutex_unlock(&lock);
}

int nvme__vfio_group_fd(const struct nvme_vfio_group *g)
{
	return g->fd;
}

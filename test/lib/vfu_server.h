/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The soft controller behind the server side of vfio-user: a drive in another process, for tests
 * of the client.  One client at a time, one thread, which polls doorbells and sleeps a little when
 * nobody rings.
 */
#ifndef VFU_SERVER_H
#define VFU_SERVER_H

#include "nvme/soft/nvme_soft.h"
#include "nvme/pci/nvme_vfu_spec.h"

#define VFU_SERVER_VECTORS  (NVME_QPAIRS_MAX + 1)
#define VFU_SERVER_MAPS_MAX 256u
#define VFU_SERVER_NS_MAX   8u

struct vfu_server_options {
	const char *path;  /* of the socket; a file there is replaced */
	const char *drive; /* file: or mem:, as nvme_open() takes them */
	bool no_mmap;      /* doorbells are messages */
	bool no_irqs;      /* no MSI-X */
	bool no_reset;     /* the device cannot be reset */
	bool ask_memory; /* when it is enabled: read and write the client's memory by messages; exit
			    3 when that does not work */
	bool nonsense;   /* speak something else */
	bool write_through;    /* the drive has no volatile cache: each write is durable when it is
				  done */
	bool not_nvme;         /* be another kind of device */
	uint32_t dma_maps_max; /* 0: VFU_SERVER_MAPS_MAX */
	uint32_t namespaces;   /* of equal size, from 1 on; 0: one */
	uint32_t mdts;         /* an I/O has up to 4 KiB << mdts; 0: the drive's own */
	/* Faults, once: after so many commands of I/O queues; 0: never. */
	uint64_t drop_after; /* close the connection */
	uint64_t hang_after; /* do nothing for hang_ms, then go on */
	uint64_t die_after;  /* as kill -9 would */
	/* From then on: die as soon as the client knows of a write that only the cache has. */
	uint64_t die_unflushed_after;
	uint32_t hang_ms;
	uint64_t mute_after; /* messages: answer no more of them on this connection */
};

struct vfu_server_map {
	uint64_t iova;
	uint64_t size_bytes;
	char *addr;
};

struct vfu_server {
	struct vfu_server_options options;
	int listen_fd;
	int fd; /* the client's, -1: none */
	struct nvme_dma *dma;
	struct nvme_soft *soft;
	uint32_t *own_doorbells; /* that the soft controller was made with */
	int bar_fd;
	char *bar; /* doorbells at NVME_REG_DOORBELLS, where it looks for them */
	uint64_t bar_bytes;
	uint8_t config[256];
	struct vfu_server_map map[VFU_SERVER_MAPS_MAX];
	uint32_t map_count;
	int irq_fd[VFU_SERVER_VECTORS];
	int queue_vector[VFU_SERVER_VECTORS]; /* -1: without interrupts */
	uint32_t cq_tail_seen[VFU_SERVER_VECTORS];
	uint64_t message_count;
	uint64_t command_count;
	bool asked_memory;
};

/* Drive and socket are there, and clients may connect, when it returns; 0, or -errno and a line. */
must_check int vfu_server_up(struct vfu_server *s, const struct vfu_server_options *options,
			     char *err_text, size_t err_text_size);
/* Serves until *stop. */
void vfu_server_run(struct vfu_server *s, const volatile bool *stop);
void vfu_server_down(struct vfu_server *s);

/* vfu_server_msg.c: one message of the client's; false: the client is to be dropped. */
must_check bool vfu_server_message(struct vfu_server *s);

/* vfu_server.c, for the messages. */
uint32_t vfu_server_maps_max(const struct vfu_server *s);
must_check int vfu_server_map(struct vfu_server *s, uint64_t iova, uint64_t size_bytes, int fd,
			      uint64_t fd_offset);
must_check int vfu_server_unmap(struct vfu_server *s, uint64_t iova, uint64_t size_bytes);
void vfu_server_reset(struct vfu_server *s);

/* ---- for tests: a server in a child process ---------------------------------------------- */

struct vfu_child {
	int pid;
	struct vfu_server_options options;
};

void vfu_child_start(struct vfu_child *child, const struct vfu_server_options *options);
/* Until SIGCONT.  It has stopped when this returns; kill() returns earlier. */
void vfu_child_pause(struct vfu_child *child);
/* As kill -9; what it had acknowledged is in its drive's file. */
void vfu_child_kill(struct vfu_child *child);
/* Orderly; its exit status. */
int vfu_child_stop(struct vfu_child *child);

#endif

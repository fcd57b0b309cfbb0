/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Drives in another process, behind a socket that speaks vfio-user.  Private to nvme/ and its
 * tests.
 *
 *   nvme_vfu_parse.c   the only place that parses a server's bytes
 *   nvme_vfu_conn.c    messages: send, wait for the reply, serve the server's own requests
 *   nvme_vfu_setup.c   from a socket's path to a device whose regions are known and mapped
 *   nvme_vfu_reg.c     the device's registers, without waiting for their answers
 *   nvme_vfu.c         the controller interface; a server that goes away
 */
#ifndef NVME_VFU_H
#define NVME_VFU_H

#include "nvme/nvme_internal.h"
#include "nvme/common/nvme_keeper.h"
#include "nvme/pci/nvme_vfu_spec.h"

#include <stdatomic.h>

#define NVME_VFU_BODY_MAX  4352u /* largest message that we accept: 4 KiB and a header */
#define NVME_VFU_XFER_MAX  4096u /* most bytes that a server may move in one message */
#define NVME_VFU_FDS_MAX   8u
#define NVME_VFU_AREAS_MAX 16u

/* ---- parsing a server's messages: nvme_vfu_parse.c ------------------------------------- */

struct nvme_vfu_head {
	uint16_t id;
	uint16_t command;
	bool reply;
	bool no_reply;
	int err; /* of a reply: 0, or -errno */
	uint32_t body_bytes;
};

struct nvme_vfu_caps {
	uint32_t minor;
	uint32_t msg_fds_max;  /* that it takes in one message */
	uint64_t xfer_max;     /* bytes of one region read or write */
	uint64_t dma_maps_max; /* at the same time */
};

struct nvme_vfu_device {
	bool resets; /* it supports VFU_DEVICE_RESET */
	uint32_t region_count;
	uint32_t irq_count;
};

struct nvme_vfu_area {
	uint64_t offset;
	uint64_t size_bytes;
};

struct nvme_vfu_region {
	bool readable;
	bool writable;
	uint64_t size_bytes;
	uint64_t fd_offset;
	uint32_t area_count; /* that may be mapped: multiples of 4 KiB inside the region */
	struct nvme_vfu_area area[NVME_VFU_AREAS_MAX];
};

struct nvme_vfu_dma_request {
	bool write;
	uint64_t iova;
	uint32_t count;
	const uint8_t *data; /* of a write */
};

/*
 * Each returns NULL, or the error for people.  `body` has `body_bytes` and may be at any address;
 * nothing outside it is read.
 */
must_check const char *nvme__vfu_parse_head(const uint8_t bytes[sizeof(struct vfu_header)],
					    struct nvme_vfu_head *out);
must_check const char *nvme__vfu_parse_version(const uint8_t *body, uint32_t body_bytes,
					       struct nvme_vfu_caps *out);
must_check const char *nvme__vfu_parse_device(const uint8_t *body, uint32_t body_bytes,
					      struct nvme_vfu_device *out);
must_check const char *nvme__vfu_parse_region(const uint8_t *body, uint32_t body_bytes,
					      uint32_t index, struct nvme_vfu_region *out);
must_check const char *nvme__vfu_parse_irq(const uint8_t *body, uint32_t body_bytes, uint32_t index,
					   uint32_t *count);
/* *data: `asked`.count bytes in `body`, of the reply to a read; NULL to a write. */
must_check const char *nvme__vfu_parse_rw(const uint8_t *body, uint32_t body_bytes,
					  const struct vfu_region_rw *asked, const uint8_t **data);
must_check const char *nvme__vfu_parse_dma(const uint8_t *body, uint32_t body_bytes, bool write,
					   struct nvme_vfu_dma_request *out);

/* ---- messages: nvme_vfu_conn.c ----------------------------------------------------------- */

/* A message that is arriving. */
struct nvme_vfu_arrival {
	uint8_t bytes[sizeof(struct vfu_header)];
	uint32_t got_bytes;        /* of the header and the body; the body goes to conn->body */
	struct nvme_vfu_head head; /* once the header is there */
	int fd[NVME_VFU_FDS_MAX];
	uint32_t fd_count;
};

/* A command whose answer is collected later. */
enum nvme_vfu_question { NVME_VFU_UNASKED, NVME_VFU_ASKED, NVME_VFU_ANSWERED };

#define NVME_VFU_ANSWER_MAX 32u

struct nvme_vfu_asked {
	_Atomic enum nvme_vfu_question state;
	_Atomic uint16_t id; /* of the open question: other answers are dropped */
	/* The answer, when there is one. */
	int err;
	uint32_t body_bytes;
	uint8_t body[NVME_VFU_ANSWER_MAX];
};

struct nvme_vfu_conn {
	int fd; /* -1: none */
	struct nvme_dma *dma;
	pthread_mutex_t send_lock;
	pthread_mutex_t exchange_lock; /* held to read from the socket */
	uint16_t next_id;
	_Atomic uint32_t life; /* of connections: another one has never heard of a question */
	struct nvme_vfu_asked asked;
	struct nvme_vfu_arrival in;      /* under exchange_lock */
	_Atomic bool broken;             /* nothing is sent or read any more */
	uint64_t timeout_ns;             /* of each reply */
	const char *_Atomic why;         /* what broke it, a constant; NULL: nothing */
	_Atomic bool left;               /* the server has closed it, or does not listen any more */
	uint8_t body[NVME_VFU_BODY_MAX]; /* of the last message that came */
};

/* A command, and where its reply's descriptors go. */
struct nvme_vfu_call {
	uint16_t command;
	const void *head; /* of the body */
	uint32_t head_bytes;
	const void *data; /* behind it */
	uint32_t data_bytes;
	const int *fds;
	uint32_t fd_count;
	/* The reply. */
	uint32_t body_bytes;            /* in conn->body */
	int reply_fd[NVME_VFU_FDS_MAX]; /* the caller's to close */
	uint32_t reply_fd_count;
};

int nvme__vfu_conn_init(struct nvme_vfu_conn *conn, struct nvme_dma *dma, uint64_t timeout_ns);
void nvme__vfu_conn_destroy(struct nvme_vfu_conn *conn);
/* 0, or -errno of socket and connect; never waits. */
must_check int nvme__vfu_conn_open(struct nvme_vfu_conn *conn, const char *path);
void nvme__vfu_conn_close(struct nvme_vfu_conn *conn);
/* Ends all waits for the server.  Any thread; never waits. */
void nvme__vfu_conn_break(struct nvme_vfu_conn *conn, const char *why);

/*
 * nvme__vfu_begin, nvme__vfu_end - one exchange: between them conn->body is the caller's
 *
 * begin: 0, or -errno that the server has answered; or the connection is broken and it is
 * -ENODEV (the server is gone), -ETIMEDOUT (no answer in time), -EPROTO (it speaks something
 * else).  `end` follows in each case.  conn->why says it for people.
 */
must_check int nvme__vfu_begin(struct nvme_vfu_conn *conn, struct nvme_vfu_call *call);
void nvme__vfu_end(struct nvme_vfu_conn *conn, struct nvme_vfu_call *call);
/* Between the two: the reply made no sense.  The connection is given up; -EPROTO. */
int nvme__vfu_nonsense(struct nvme_vfu_conn *conn, const char *what);

/* A command without a reply; any thread, never waits: -EAGAIN when the socket is full. */
must_check int nvme__vfu_post(struct nvme_vfu_conn *conn, const struct nvme_vfu_call *call);

/*
 * Serves the server's own requests, and receives the open answer; false if the connection is
 * broken.  Any thread, never waits.
 */
must_check bool nvme__vfu_look(struct nvme_vfu_conn *conn);

/*
 * Sends a command whose answer, of at most NVME_VFU_ANSWER_MAX bytes, is collected later:
 * conn->asked is ANSWERED after some nvme__vfu_look(), or never.  One question at a time, from one
 * thread at a time; a new one drops the last one's answer.  Never waits: -EAGAIN when the socket is
 * full.
 */
must_check int nvme__vfu_ask(struct nvme_vfu_conn *conn, const struct nvme_vfu_call *call);
/* Whatever comes now answers nothing. */
void nvme__vfu_unask(struct nvme_vfu_conn *conn);

/* R1 -> A1 (R1 in nvme_vfu_conn.c): the answer is there. */
static inline bool nvme__vfu_answered(const struct nvme_vfu_conn *conn)
{
	return atomic_load_explicit(&conn->asked.state, memory_order_acquire) == /* A1 */
	       NVME_VFU_ANSWERED;
}

/* ---- the device: nvme_vfu_setup.c ---------------------------------------------------------- */

#define NVME_VFU_DOORBELLS (2 * (NVME_QPAIRS_MAX + 1))

#define NVME_VFU_MAPPING_MAX (64ull << 20) /* bytes; more than any doorbells take */

struct nvme_vfu_mapping {
	char *addr;
	uint64_t offset; /* in BAR 0 */
	uint64_t size_bytes;
	uint32_t guard; /* nvme_vfio_guard.c: its file may be cut off */
};

/* Writes to be sent, and the register that was asked for; used at the helm. */
#define NVME_VFU_WRITES_MAX 16u

struct nvme_vfu_write {
	uint32_t offset;
	uint32_t size_bytes;
	uint64_t value;
};

struct nvme_vfu_regs {
	struct nvme_vfu_write write[NVME_VFU_WRITES_MAX]; /* oldest first */
	uint32_t write_count;
	uint32_t life;   /* of the connection that all this is for */
	bool wanted;     /* there is a question */
	bool sent;       /* sent to the server  */
	uint32_t offset; /* ... which is of this register */
	uint32_t size_bytes;
	uint64_t since_ns; /* and was asked then */
};

struct nvme_vfu {
	struct nvme_ctrl_ops ops;
	struct nvme_vfu_conn conn;
	struct nvme_dma *dma;
	char path[108];
	char why[160]; /* why the last setup failed, for people */
	struct nvme_vfu_caps caps;
	struct nvme_vfu_device device;
	struct nvme_vfu_region bar;
	uint32_t vector_count; /* MSI-X; 0: none that can be an eventfd */
	struct nvme_vfu_mapping map[NVME_VFU_AREAS_MAX];
	uint32_t map_count;
	struct nvme_vfu_regs regs;
	uint64_t doorbell_stride;
	volatile uint32_t *mapped_doorbells; /* MMIO; NULL: they go as messages */
	struct nvme_vfu_doorbell *doorbell;  /* else: NVME_VFU_DOORBELLS of them */
	volatile uint32_t nowhere;           /* a doorbell that is not read */
	struct nvme_dma_target target;
	bool attached;
	_Atomic bool released; /* final: the server is asked nothing any more */
	uint32_t dma_map_count;
	bool refused_memory;              /* that is no file's, when it was to be shared last */
	int wake_fd[NVME_QPAIRS_MAX + 1]; /* -1: not made yet */
	int alarm_fd;                     /* an epoll of the socket: the same over all reconnects */
	bool told;                        /* that it is gone: once a connection; keeper.lock's */
	struct nvme_keeper keeper;
};

/*
 * A doorbell that is a message: a register that the driver only writes.  NVME_VFU_SENT: it was not
 * written since it was sent.
 */
struct nvme_vfu_doorbell {
	_Alignas(64) volatile uint32_t word; /* MMIO, played */
};

#define NVME_VFU_SENT UINT32_MAX /* no queue has an entry of this number */

/*
 * nvme__vfu_setup - connect, agree on a version, learn and map the device, share our memory
 *
 * For the first time or again, after the server had gone: mappings keep their addresses.  One
 * attempt; waits for the server's replies, each at most the connection's timeout.  After a failure
 * vfu->why has a line for people.
 */
must_check int nvme__vfu_setup(struct nvme_vfu *vfu);
/* The reverse, as far as it went; mappings of BAR 0 stay. */
void nvme__vfu_take_down(struct nvme_vfu *vfu);
/* From here on doorbells are memory of ours; then they are none. */
void nvme__vfu_unmap(struct nvme_vfu *vfu);
void nvme__vfu_forget_mappings(struct nvme_vfu *vfu);

/* Of `size_bytes`, at most 8; 0 or -errno, after which *value is all ones. */
must_check int nvme__vfu_read(struct nvme_vfu *vfu, uint32_t region, uint64_t offset,
			      uint32_t size_bytes, uint64_t *value);
must_check int nvme__vfu_write(struct nvme_vfu *vfu, uint32_t region, uint64_t offset,
			       uint32_t size_bytes, uint64_t value);
must_check int nvme__vfu_bus_master(struct nvme_vfu *vfu, bool on);
/* The eventfd of `vector`, which the server is to write to. */
must_check int nvme__vfu_attach_vector(struct nvme_vfu *vfu, uint32_t vector);

/* ---- registers: nvme_vfu_reg.c -------------------------------------------------------------- */

/* Returns true if there is a server to talk to.  R2 -> A2 (nvme_vfu_conn.c), R4 -> A4
 * (nvme_vfu.c) */
static inline bool nvme__vfu_is_live(const struct nvme_vfu *vfu)
{
	return !atomic_load_explicit(&vfu->conn.broken, memory_order_acquire) && /* A2 */
	       !atomic_load_explicit(&vfu->released, memory_order_acquire);      /* A4 */
}

/* As nvme_ctrl_ops.ask requires.  A server that does not answer in time breaks the connection. */
must_check int nvme__vfu_reg_ask(struct nvme_vfu *vfu, uint32_t offset, uint32_t size_bytes,
				 uint64_t *value);
/* Never waits: writes that do not fit into the socket are sent before the next question. */
void nvme__vfu_reg_write(struct nvme_vfu *vfu, uint32_t offset, uint32_t size_bytes,
			 uint64_t value);
/* Waits for the answer: not for a polling thread. */
uint64_t nvme__vfu_reg_read(struct nvme_vfu *vfu, uint32_t offset, uint32_t size_bytes);

/* ---- the controller: nvme_vfu.c -------------------------------------------------------------- */

/* In a directory the socket is "cntrl", as SPDK's target makes it. */
void nvme__vfu_find_socket(struct nvme_name *name);
/* A drive over the server at parsed->path, which is a socket. */
must_check int nvme__vfu_open(struct nvme__found *out, const struct nvme_name *parsed,
			      const char *name, struct nvme_dma *dma,
			      const struct nvme_options *options, char *err_text,
			      size_t err_text_size);

#endif

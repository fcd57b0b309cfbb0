/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Between fake_verbs.c, where work is carried out, and fake_verbs_cm.c, where sides meet. */
#ifndef FAKE_VERBS_INTERNAL_H
#define FAKE_VERBS_INTERNAL_H

#include "base/list.h"
#include "base/num.h"
#include "base/rand.h"
#include "test/lib/fake_verbs.h"

#define QPS_MAX    128
#define MRS_MAX    512
#define INLINE     512
#define WRS_MAX    4096
#define EVENTS_MAX 512

struct fake_wr {
	struct ibv_send_wr wr;
	struct ibv_sge sge[2];
	uint8_t bytes[INLINE];
	uint32_t length;
	bool done; /* carried out; its place is free when a completion from here on was seen */
};

struct fake_recv {
	uint64_t wr_id;
	struct ibv_sge sge;
};

struct fake_channel { /* completions */
	struct ibv_comp_channel channel;
	struct ibv_cq *events[EVENTS_MAX];
	uint32_t count;
};

struct fake_cq {
	struct ibv_cq cq;
	struct ibv_wc wc[WRS_MAX];
	uint32_t head, tail;
	bool armed;
	uint32_t unacked;
	uint32_t users;
};

struct fake_id {
	struct rdma_cm_id id;
	struct fake_id *peer;
	bool server;
	bool listening;
	bool connected;
	bool told_end;
	uint32_t unacked;
	uint8_t initiator_depth;
	uint8_t ack_timeout;
};

struct fake_qp {
	struct ibv_qp qp;
	struct fake_id *id;
	struct ibv_qp_cap cap;
	bool broken;
	struct fake_wr wrs[WRS_MAX];
	uint32_t posted, done, freed;
	struct fake_recv recvs[WRS_MAX];
	uint32_t recv_posted, recv_done;
};

struct fake_mr {
	struct ibv_mr mr;
	int access;
};

struct fake_event {
	struct rdma_cm_event event;
	uint8_t data[56];
	struct fake_id *id;
	struct fake_manager *to;
	struct fake_event *next;
};

struct fake_manager { /* event channel */
	struct rdma_event_channel channel;
	struct fake_event *first;
};

struct fake__state {
	struct fake_verbs_cfg cfg;
	struct rand_state rand;
	struct ibv_context context;
	struct ibv_device device;
	struct ibv_async_event async[8];
	uint32_t async_count;
	uint32_t async_unacked;
	union ibv_gid gid; /* the port's one address */
	struct fake_qp *qps[QPS_MAX];
	struct fake_mr *mrs[MRS_MAX];
	struct fake_id *listeners[8];
	uint32_t objects;
	uint32_t key;
	uint16_t port;
	bool frozen;
	bool removed; /* the device */
	bool port_down;
	bool port_looks_up;
	bool dumb; /* no message of the manager's arrives any more */
};

extern struct fake__state fake__state;

struct ibv_pd *fake__alloc_pd(struct ibv_context *context);
int fake__dealloc_pd(struct ibv_pd *pd);
struct ibv_mr *fake__reg_mr(struct ibv_pd *pd, void *at, size_t bytes, int access);
int fake__dereg_mr(struct ibv_mr *mr);
struct ibv_comp_channel *fake__create_comp_channel(struct ibv_context *context);
int fake__destroy_comp_channel(struct ibv_comp_channel *channel);
struct ibv_cq *fake__create_cq(struct ibv_context *context, int cqe, void *cq_context,
			       struct ibv_comp_channel *channel, int vector);
int fake__destroy_cq(struct ibv_cq *pub);
int fake__get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context);
void fake__ack_cq_events(struct ibv_cq *cq, unsigned int count);
int fake__req_notify_cq(struct ibv_cq *cq, int solicited_only);
int fake__create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
void fake__destroy_qp(struct rdma_cm_id *id);
int fake__post_recv(struct ibv_qp *pub, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int fake__post_send(struct ibv_qp *pub, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int fake__poll_cq(struct ibv_cq *pub, int wc_max, struct ibv_wc *wc);
int fake__no(int err);
void *fake__make(size_t bytes);
void fake__unmake(void *p);
void fake__ring_fd(int fd);
void fake__drain_fd(int fd);
struct fake_qp *fake__qp_of(struct ibv_qp *qp);
/* Returns the id of the work that was posted last. */
uint64_t fake__last_wr(const struct fake_qp *qp);
void fake__qp_break(struct fake_qp *qp, uint64_t wr_id, enum ibv_wc_status status);

#endif

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The host's verbs as one table of functions: loaded at run time, so that our programs also start
 * on hosts without RDMA, and replaced by a simulated fabric in the tests.
 */
#ifndef FAB_RDMA_VERBS_H
#define FAB_RDMA_VERBS_H

#include "base/assert.h"

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

struct fab_verbs {
	/* librdmacm */
	struct rdma_event_channel *(*create_event_channel)(void);
	void (*destroy_event_channel)(struct rdma_event_channel *channel);
	int (*create_id)(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
			 enum rdma_port_space ps);
	int (*destroy_id)(struct rdma_cm_id *id);
	int (*bind_addr)(struct rdma_cm_id *id, struct sockaddr *addr);
	int (*listen)(struct rdma_cm_id *id, int backlog);
	int (*resolve_addr)(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to,
			    int timeout_ms);
	int (*resolve_route)(struct rdma_cm_id *id, int timeout_ms);
	int (*create_qp)(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	void (*destroy_qp)(struct rdma_cm_id *id);
	int (*connect)(struct rdma_cm_id *id, struct rdma_conn_param *param);
	int (*accept)(struct rdma_cm_id *id, struct rdma_conn_param *param);
	int (*reject)(struct rdma_cm_id *id, const void *data, uint8_t data_bytes);
	int (*disconnect)(struct rdma_cm_id *id);
	int (*get_cm_event)(struct rdma_event_channel *channel, struct rdma_cm_event **event);
	int (*ack_cm_event)(struct rdma_cm_event *event);
	__be16 (*get_src_port)(struct rdma_cm_id *id);
	int (*set_option)(struct rdma_cm_id *id, int level, int name, void *value, size_t bytes);
	const char *(*event_str)(enum rdma_cm_event_type event);

	/* libibverbs */
	int (*query_device)(struct ibv_context *context, struct ibv_device_attr *out);
	/* Zero `out` first: an older library fills less of it. */
	int (*query_port)(struct ibv_context *context, uint8_t port,
			  struct _compat_ibv_port_attr *out);
	int (*query_gid)(struct ibv_context *context, uint8_t port, int index, union ibv_gid *out);
	const char *(*get_device_name)(struct ibv_device *device);
	int (*get_async_event)(struct ibv_context *context, struct ibv_async_event *out);
	void (*ack_async_event)(struct ibv_async_event *event);
	const char *(*event_type_str)(enum ibv_event_type type);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	int (*dealloc_pd)(struct ibv_pd *pd);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *at, size_t bytes, int access);
	int (*dereg_mr)(struct ibv_mr *mr);
	struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *context);
	int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
	struct ibv_cq *(*create_cq)(struct ibv_context *context, int cqe_count, void *cq_context,
				    struct ibv_comp_channel *channel, int vector);
	int (*destroy_cq)(struct ibv_cq *cq);
	int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context);
	void (*ack_cq_events)(struct ibv_cq *cq, unsigned int count);

	/* of the device's driver */
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
	int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
	int (*poll_cq)(struct ibv_cq *cq, int wc_max, struct ibv_wc *wc);
	int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);
};

/* The host's: loaded by the first call.  NULL: there are none; `why` (256 bytes) gets a line. */
const struct fab_verbs *fab__verbs(char *why);

/* Tests: what fab__verbs() returns from now on; NULL: the host's again. */
void fab__verbs_set(const struct fab_verbs *verbs);

#endif

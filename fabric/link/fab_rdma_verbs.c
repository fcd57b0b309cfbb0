/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The host's verbs: libibverbs.so.1 and librdmacm.so.1, loaded once a process and never unloaded
 * (their drivers keep handlers of threads and forks).
 */
#include "fabric/fab_internal.h"
#include "fabric/link/fab_rdma_verbs.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

/* Functions of a library; functions of the drivers are behind inline functions. */
#define OF_RDMACM(X)                                                                               \
	X(create_event_channel)                                                                    \
	X(destroy_event_channel)                                                                   \
	X(create_id)                                                                               \
	X(destroy_id)                                                                              \
	X(bind_addr)                                                                               \
	X(listen)                                                                                  \
	X(resolve_addr)                                                                            \
	X(resolve_route)                                                                           \
	X(create_qp)                                                                               \
	X(destroy_qp)                                                                              \
	X(connect)                                                                                 \
	X(accept)                                                                                  \
	X(reject)                                                                                  \
	X(disconnect)                                                                              \
	X(get_cm_event)                                                                            \
	X(ack_cm_event)                                                                            \
	X(get_src_port)                                                                            \
	X(set_option)                                                                              \
	X(event_str)

#define OF_IBVERBS(X)                                                                              \
	X(query_device)                                                                            \
	X(query_port)                                                                              \
	X(query_gid)                                                                               \
	X(get_device_name)                                                                         \
	X(get_async_event)                                                                         \
	X(ack_async_event)                                                                         \
	X(event_type_str)                                                                          \
	X(alloc_pd)                                                                                \
	X(dealloc_pd)                                                                              \
	X(reg_mr)                                                                                  \
	X(dereg_mr)                                                                                \
	X(create_comp_channel)                                                                     \
	X(destroy_comp_channel)                                                                    \
	X(create_cq)                                                                               \
	X(destroy_cq)                                                                              \
	X(get_cq_event)                                                                            \
	X(ack_cq_events)

static int driver_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	return ibv_post_send(qp, wr, bad);
}

static int driver_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return ibv_post_recv(qp, wr, bad);
}

static int driver_poll_cq(struct ibv_cq *cq, int wc_max, struct ibv_wc *wc)
{
	return ibv_poll_cq(cq, wc_max, wc);
}

static int driver_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	return ibv_req_notify_cq(cq, solicited_only);
}

static struct fab_verbs host = {
	.post_send = driver_post_send,
	.post_recv = driver_post_recv,
	.poll_cq = driver_poll_cq,
	.req_notify_cq = driver_req_notify_cq,
};
static bool host_has;
static char host_why[FAB_WHY_MAX];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static const struct fab_verbs *instead;

static void *library(const char *name)
{
	void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);

	if (!lib) /* dlerror() names the library */
		snprintf(host_why, sizeof(host_why), "no RDMA on this host: %.200s", dlerror());
	return lib;
}

/* POSIX guarantees that the address of a function fits the pointer that dlsym() returns. */
static bool find(void *lib, const char *name, void *to)
{
	void *at = dlsym(lib, name);

	if (!at)
		snprintf(host_why, sizeof(host_why),
			 "no RDMA on this host: its libraries have no %s", name);
	*(void **)to = at;
	return at != NULL;
}

#define FIND_RDMA(name) found = found && find(rdmacm, "rdma_" #name, &host.name);
#define FIND_IBV(name)  found = found && find(ibverbs, "ibv_" #name, &host.name);

static void load(void)
{
	void *ibverbs = library("libibverbs.so.1");
	void *rdmacm = ibverbs ? library("librdmacm.so.1") : NULL;
	bool found = rdmacm != NULL;

	OF_RDMACM(FIND_RDMA)
	OF_IBVERBS(FIND_IBV)
	host_has = found;
}

const struct fab_verbs *fab__verbs(char *why)
{
	if (instead)
		return instead;
	ASSERT(pthread_once(&once, load) == 0);
	if (host_has)
		return &host;
	snprintf(why, FAB_WHY_MAX, "%s", host_why);
	return NULL;
}

void fab__verbs_set(const struct fab_verbs *verbs)
{
	instead = verbs;
}

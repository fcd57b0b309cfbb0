/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Forces a program's queue pairs to error, as a card does that has met one: for LD_PRELOAD.
 *
 *	BREAK_QP=FILE LD_PRELOAD=.../preload_break_qp.so PROGRAM ...      each time FILE appears
 *
 * The program finds its verbs by dlsym(): what it gets for rdma_create_qp and rdma_destroy_qp
 * remembers the queue pairs.  FILE is removed when they are broken.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { QPS_MAX = 256 };

static int (*real_create)(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
static void (*real_destroy)(struct rdma_cm_id *id);
static int (*real_modify)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
static struct ibv_qp *qps[QPS_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void replace(struct ibv_qp *old, struct ibv_qp *by)
{
	for (int i = 0; i < QPS_MAX; i++)
		if (qps[i] == old) {
			qps[i] = by;
			return;
		}
}

static void *watch(void *file)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	for (;; usleep(20000)) {
		if (access(file, F_OK))
			continue;
		pthread_mutex_lock(&lock);
		for (int i = 0; i < QPS_MAX; i++)
			if (qps[i] && real_modify(qps[i], &attr, IBV_QP_STATE))
				perror("break_qp");
		pthread_mutex_unlock(&lock);
		unlink(file);
	}
	return NULL;
}

static void begin(void)
{
	pthread_t thread;

	if (getenv("BREAK_QP"))
		pthread_create(&thread, NULL, watch, getenv("BREAK_QP"));
}

static int create(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	int err;

	pthread_once(&once, begin);
	pthread_mutex_lock(&lock);
	err = real_create(id, pd, attr);
	if (!err)
		replace(NULL, id->qp);
	pthread_mutex_unlock(&lock);
	return err;
}

static void destroy(struct rdma_cm_id *id)
{
	pthread_mutex_lock(&lock);
	replace(id->qp, NULL);
	real_destroy(id);
	pthread_mutex_unlock(&lock);
}

void *dlsym(void *restrict handle, const char *restrict name)
{
	static void *(*real)(void *handle, const char *name);
	void *found, *ours = NULL;

	if (!real)
		*(void **)&real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
	found = real(handle, name);
	if (strcmp(name, "rdma_create_qp") == 0) {
		*(void **)&real_create = found;
		*(int (**)(struct rdma_cm_id *, struct ibv_pd *, struct ibv_qp_init_attr *)) &
			ours = create;
	} else if (strcmp(name, "rdma_destroy_qp") == 0) {
		*(void **)&real_destroy = found;
		*(void (**)(struct rdma_cm_id *)) & ours = destroy;
	} else if (strcmp(name, "ibv_query_device") == 0) {
		*(void **)&real_modify = real(handle, "ibv_modify_qp");
	}
	return ours ? ours : found;
}

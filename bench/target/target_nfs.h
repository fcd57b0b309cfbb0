/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* libnfs, loaded at run time: weka-bench needs it only to measure an NFS server. */
#ifndef BENCH_TARGET_TARGET_NFS_H
#define BENCH_TARGET_TARGET_NFS_H

#include "bench/target/target_internal.h"

#include <sys/time.h> /* libnfs.h lacks it */

#include <nfsc/libnfs.h>

/* The calls that we use, each named as in the library. */
struct nfs__calls {
	__typeof__(nfs_init_context) *init_context;
	__typeof__(nfs_destroy_context) *destroy_context;
	__typeof__(nfs_parse_url_dir) *parse_url_dir;
	__typeof__(nfs_destroy_url) *destroy_url;
	__typeof__(nfs_set_dircache) *set_dircache;
	__typeof__(nfs_mount) *mount;
	__typeof__(nfs_get_error) *get_error;
	__typeof__(nfs_get_fd) *get_fd;
	__typeof__(nfs_which_events) *which_events;
	__typeof__(nfs_service) *service;
	__typeof__(nfs_mkdir) *mkdir;
	__typeof__(nfs_rmdir) *rmdir;
	__typeof__(nfs_unlink) *unlink;
	__typeof__(nfs_opendir) *opendir;
	__typeof__(nfs_readdir) *readdir;
	__typeof__(nfs_closedir) *closedir;
	__typeof__(nfs_open) *open;
	__typeof__(nfs_close) *close;
	__typeof__(nfs_open_async) *open_async;
	__typeof__(nfs_create_async) *create_async;
	__typeof__(nfs_pread_async) *pread_async;
	__typeof__(nfs_pwrite_async) *pwrite_async;
	__typeof__(nfs_fsync_async) *fsync_async;
	__typeof__(nfs_close_async) *close_async;
	__typeof__(nfs_stat64_async) *stat64_async;
	__typeof__(nfs_unlink_async) *unlink_async;
};

/* The library's calls; NULL after a line on stderr. */
const struct nfs__calls *nfs__load(void);

#define NFS__SLOTS 64u        /* ios at once on a connection                       */
#define NFS__PIECE (1u << 20) /* the most that servers take in one READ or WRITE   */
#define NFS__KEPT  64u
#define NFS__DIRS  64u /* directories of a target                           */

enum nfs__stage { NFS__FREE, NFS__OPENING, NFS__MOVING, NFS__SYNCING, NFS__CLOSING, NFS__ASKING };

/* A file that stays open: TARGET_KEEP_OPEN. */
struct nfs__kept {
	struct nfsfh *file; /* NULL: none */
	uint32_t users;
	char path[TARGET_PATH_MAX];
};

struct nfs__slot {
	enum nfs__stage at;
	struct target_session *session;
	struct target_group *group;
	struct target_io *io;
	struct nfsfh *file;
	struct nfs__kept *kept; /* whose file it is; NULL: the slot's own */
	uint32_t want;          /* bytes of the READ or WRITE that is under way */
	int err;
	uint8_t *buffer;
	char path[TARGET__ROOT_MAX + TARGET_PATH_MAX];
};

struct nfs__session {
	const struct nfs__calls *call;
	struct nfs_context *nfs;
	struct target_group *waiting, **waiting_last;
	uint32_t slot_count, busy;
	uint8_t *memory;
	struct nfs__kept kept[NFS__KEPT];
	struct nfs__slot slot[NFS__SLOTS];
};

/* ---- target_nfs_io.c ---------------------------------------------------------------- */

/* Begins ios of waiting groups in free slots. */
void nfs__fill_slots(struct target_session *s);

#endif

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Part of preload.h: libweka-client, which is loaded when the first path is the appliance's. */
#ifndef CLIENT_LIB_PRELOAD_LOAD_H
#define CLIENT_LIB_PRELOAD_LOAD_H

#include "client-lib/weka_client.h"

/* clang-format off */
#define PRELOAD_CALLS(X) \
	X(weka_connect) X(weka_close) X(weka_lease) X(weka_release) X(weka_window_bytes) \
	X(weka_submit_stat) X(weka_submit_read_batch) X(weka_submit_list) X(weka_submit_readlink) \
	X(weka_reap) X(weka_wait) X(weka_pread) X(weka_getxattr) X(weka_listxattr) X(weka_error)
/* clang-format on */

struct preload_weka {
#define PRELOAD_ONE(name) __typeof__(&name) name;
	PRELOAD_CALLS(PRELOAD_ONE)
#undef PRELOAD_ONE
};

/* Returns the library's functions, or NULL: it is not there. */
const struct preload_weka *preload_weka(void);

#define WEKA (preload_weka())

#endif

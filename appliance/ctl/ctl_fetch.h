/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Text from elsewhere on this machine: a program's output, a page of the appliance's HTTP. */
#ifndef CTL_FETCH_H
#define CTL_FETCH_H

#include "appliance/conf/app_conf_metrics.h"

#include <stddef.h>

/* Runs a program and returns the last bytes_max of its output in malloc() memory, with a NUL behind
 * them.  Errors: those of posix_spawnp(); -EIO if it failed. */
must_check int ctl_fetch_program(const char *const argv[], size_t bytes_max, char **out);
/* Gets a path over HTTP, within some seconds: the body, with a NUL behind it.  token: "" none.
 * Errors: those of sockets; -EPROTO if the answer is not a page; -EFBIG. */
must_check int ctl_fetch_http(const struct app_conf_address *from, const char *path,
			      const char *token, size_t bytes_max, char **out);

#endif

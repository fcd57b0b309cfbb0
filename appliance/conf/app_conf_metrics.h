/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Where metrics and the page are served, and the token that is asked for there. */
#ifndef APP_CONF_METRICS_H
#define APP_CONF_METRICS_H

#include "appliance/conf/app_conf.h"

#include <sys/socket.h>

struct app_conf_address {
	struct sockaddr_storage address;
	socklen_t size_bytes;
	bool is_loopback;
};
/* Parses "HOST:PORT" of `metrics`.  Errors: -EINVAL. */
must_check int app_conf_metrics_address(const char *text, struct app_conf_address *out);
/* Reads the token; "" if there is none.  Only a file that nobody but its owner (we, or root) may
 * read is taken.  Errors: -EINVAL, -EACCES, what open() says, with a line in `why`. */
must_check int app_conf_metrics_token(const struct app_conf *c, char token[APP_TOKEN_MAX + 1],
				      char *why);

#endif

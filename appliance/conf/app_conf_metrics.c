/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Where metrics and the page are served: `metrics`, and the token of `metrics_token_file`. */
#include "appliance/conf/app_conf_metrics.h"
#include "base/num.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* "127.0.0.1:9620" or "[::1]:9620": the host, without brackets, and the port. */
static bool split(const char *text, char host[APP_CONF_TEXT_MAX], uint16_t *port)
{
	const char *colon = strrchr(text, ':');
	size_t bytes = colon ? (size_t)(colon - text) : 0;
	unsigned long number;
	char *end;

	if (bytes == 0 || !isdigit((unsigned char)colon[1]))
		return false;
	number = strtoul(colon + 1, &end, 10);
	if (*end || number == 0 || number > UINT16_MAX)
		return false;
	*port = (uint16_t)number;
	if (text[0] == '[' && colon[-1] == ']') {
		text++;
		bytes -= 2;
	} else if (memchr(text, ':', bytes)) {
		return false;
	}
	memcpy(host, text, bytes);
	host[bytes] = '\0';
	return true;
}

int app_conf_metrics_address(const char *text, struct app_conf_address *out)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&out->address;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)&out->address;
	char host[APP_CONF_TEXT_MAX];
	uint16_t port;

	memset(out, 0, sizeof(*out));
	if (!split(text, host, &port))
		return -EINVAL;
	if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		out->size_bytes = sizeof(*v4);
		out->is_loopback = ntohl(v4->sin_addr.s_addr) >> 24 == 127;
		return 0;
	}
	if (inet_pton(AF_INET6, host, &v6->sin6_addr) != 1)
		return -EINVAL;
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(port);
	out->size_bytes = sizeof(*v6);
	out->is_loopback = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
	return 0;
}

int app_conf_metrics_check(const struct app_conf *c, char *why)
{
	struct app_conf_address address;

	if (!c->metrics[0])
		return 0;
	if (app_conf_metrics_address(c->metrics, &address)) {
		app_conf_blame(c, APP_CONF_METRICS, why,
			       "allowed is HOST:PORT, HOST a number, as in 127.0.0.1:9620 or "
			       "[::1]:9620");
		return -EINVAL;
	}
	if (address.is_loopback || c->metrics_token_file[0])
		return 0;
	app_conf_blame(c, APP_CONF_METRICS, why,
		       "others can reach this address, so it needs metrics_token_file; or listen "
		       "on 127.0.0.1, behind a reverse proxy");
	return -EINVAL;
}

/* The token is the file's first line: printable characters without blanks. */
static bool take_token(const char *text, size_t bytes, char token[APP_TOKEN_MAX + 1])
{
	while (bytes && isspace((unsigned char)text[bytes - 1]))
		bytes--;
	if (bytes < APP_TOKEN_MIN || bytes > APP_TOKEN_MAX)
		return false;
	for (size_t i = 0; i < bytes; i++)
		if (!isgraph((unsigned char)text[i]))
			return false;
	memcpy(token, text, bytes);
	token[bytes] = '\0';
	return true;
}

static int read_token(const char *path, char token[APP_TOKEN_MAX + 1], const char **what)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	char text[APP_TOKEN_MAX + 64];
	struct stat st;
	ssize_t bytes;
	int err = 0;

	*what = NULL;
	if (fd < 0 || fstat(fd, &st)) {
		err = -errno;
	} else if (!S_ISREG(st.st_mode)) {
		err = -EINVAL;
		*what = "not a regular file";
	} else if ((st.st_mode & 077) || (st.st_uid != 0 && st.st_uid != geteuid())) {
		err = -EACCES;
		*what = "not its owner's alone (chmod 600, owned by us or root)";
	} else {
		bytes = read(fd, text, sizeof(text));
		err = bytes < 0 ? -errno : 0;
		if (!err && !take_token(text, (size_t)bytes, token)) {
			err = -EINVAL;
			*what = "not a token: 16 to 128 printable characters without blanks are "
				"wanted, as openssl rand -hex 32 makes them";
		}
	}
	explicit_bzero(text, sizeof(text));
	if (fd >= 0)
		close(fd);
	return err;
}

int app_conf_metrics_token(const struct app_conf *c, char token[APP_TOKEN_MAX + 1], char *why)
{
	char line[2 * APP_CONF_TEXT_MAX + 128];
	const char *what;
	int err;

	token[0] = '\0';
	if (!c->metrics[0] || !c->metrics_token_file[0])
		return 0;
	err = read_token(c->metrics_token_file, token, &what);
	if (!err)
		return 0;
	snprintf(line, sizeof(line), "%s: %s", c->metrics_token_file, what ? what : strerror(-err));
	app_conf_blame(c, APP_CONF_METRICS_TOKEN, why, line);
	return err;
}

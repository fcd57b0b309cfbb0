/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Resolves host names in the list of addresses, once, in weka_connect(): a lookup may take long,
 * and a client that reconnects must not wait for one.
 *
 *    tcp://store:7010  -->  tcp://192.168.1.2:7010, tcp://[fd00::2]:7010
 */
#include "client-lib/client_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define WHY_MAX 256

/* A list being built.  Each address of the user's list gets at least one place, so a name with many
 * addresses does not push out later ones. */
struct found {
	char *address[CLIENT_ADDRESSES];
	uint32_t count;
	uint32_t count_max; /* the last places are reserved for the rest of the user's list */
};

static int found_add(struct found *f, const char *text)
{
	ASSERT(f->count <= f->count_max && f->count_max <= CLIENT_ADDRESSES);
	if (f->count == f->count_max)
		return 0; /* keep only the first addresses of a name */
	f->address[f->count] = strdup(text);
	if (!f->address[f->count])
		return -ENOMEM;
	f->count++;
	return 0;
}

/* Parses "SCHEME://HOST:PORT"; false for anything else, or if HOST cannot be a name. */
static bool split(const char *address, char scheme[8], char host[256], const char **port)
{
	const char *from = strstr(address, "://"), *colon;

	if (!from || from - address > 4 || strncmp(address, "shm", 3) == 0)
		return false;
	snprintf(scheme, 8, "%.*s", (int)(from - address), address);
	if (strcmp(scheme, "tcp") != 0 && strcmp(scheme, "tls") != 0 && strcmp(scheme, "rdma") != 0)
		return false;
	from += 3;
	colon = strrchr(from, ':');
	if (!colon || colon == from || colon - from >= 256 || *from == '[')
		return false;
	snprintf(host, 256, "%.*s", (int)(colon - from), from);
	ASSERT(host[0] && scheme[0]);
	*port = colon + 1;
	return strspn(host, "0123456789.") != strlen(host); /* a wrong number */
}

static int add_number(struct found *f, const char *scheme, const struct sockaddr *sa,
		      const char *port)
{
	char number[INET6_ADDRSTRLEN], text[128];
	const bool is6 = sa->sa_family == AF_INET6;
	const void *from =
		is6 ? (const void *)&((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr
		    : (const void *)&((const struct sockaddr_in *)(const void *)sa)->sin_addr;

	ASSERT(sa->sa_family == AF_INET || is6);
	if (!inet_ntop(sa->sa_family, from, number, sizeof(number)))
		return 0;
	snprintf(text, sizeof(text), "%s://%s%s%s:%.8s", scheme, is6 ? "[" : "", number,
		 is6 ? "]" : "", port);
	return found_add(f, text);
}

static int resolve(struct found *f, const char *address, char *why)
{
	const struct addrinfo hints = { .ai_family = AF_UNSPEC,
					.ai_socktype = SOCK_STREAM,
					.ai_flags = AI_ADDRCONFIG };
	struct addrinfo *list, *at;
	char scheme[8], host[256];
	const char *port;
	int err = 0, got;

	if (!split(address, scheme, host, &port))
		return found_add(f, address);
	got = getaddrinfo(host, NULL, &hints, &list);
	if (got) {
		snprintf(why, WHY_MAX, "%.120s: cannot look up the host: %.100s", address,
			 gai_strerror(got));
		return got == EAI_MEMORY ? -ENOMEM : got == EAI_AGAIN ? -EAGAIN : -ENOENT;
	}
	for (at = list; at && !err; at = at->ai_next)
		err = add_number(f, scheme, at->ai_addr, port);
	freeaddrinfo(list);
	return err;
}

int client__resolve(struct weka_client *c, char *why)
{
	struct found f = { .count = 0 };
	char not_used[WHY_MAX];
	int err = 0;

	ASSERT(c->address_count > 0 && c->address_count <= CLIENT_ADDRESSES);
	for (uint32_t i = 0; i < c->address_count && !err; i++) {
		f.count_max = CLIENT_ADDRESSES - (c->address_count - 1 - i);
		err = fab_address_check(c->addresses[i], not_used) == 0
			      ? found_add(&f, c->addresses[i])
			      : resolve(&f, c->addresses[i], why);
	}
	if (err) {
		while (f.count > 0)
			free(f.address[--f.count]);
		return err;
	}
	for (uint32_t i = 0; i < c->address_count; i++)
		free(c->addresses[i]);
	memcpy(c->addresses, f.address, sizeof(f.address));
	c->address_count = f.count;
	ASSERT(c->address_count <= CLIENT_ADDRESSES);
	return 0;
}

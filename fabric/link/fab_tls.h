/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * TLS 1.3 under a TCP connection, with the connection's key as pre-shared key: PROTOCOL.md 9.
 * OpenSSL implements it; the code above it sees a socket that reads and writes.
 */
#ifndef FAB_TLS_H
#define FAB_TLS_H

#include "fabric/fab_internal.h"

#include <sys/types.h>
#include <sys/uio.h>

/* That AES-GCM's security bound allows under one key: 2^24.5, less some that are on their way. */
#define FAB_TLS_RECORDS_MAX (UINT64_C(1) << 24)

struct fab_tls;
struct fab_tls_host; /* shared by all connections of a server */

/* Looks up the secret of key `id` (wiped soon), or -ENOENT. */
struct fab_tls_keys {
	int (*secret)(void *ctx, const char *id, uint8_t secret[FAB_KEY_BYTES]);
	void *ctx;
};

must_check int fab__tls_host_create(struct fab_tls_host **out, const struct fab_tls_keys *keys);
void fab__tls_host_destroy(struct fab_tls_host *host);

/* `fd` stays the caller's, and is not blocking.  Errors: -ENOMEM. */
must_check int fab__tls_accept(struct fab_tls **out, struct fab_tls_host *host, int fd);
must_check int fab__tls_connect(struct fab_tls **out, const struct fab_key *key, int fd);
void fab__tls_free(struct fab_tls *tls);

/*
 * Continues the handshake.  0: done, -EINPROGRESS: call again after more input, -EACCES (the key),
 * -EPROTO (the peer speaks another protocol), -ECONNRESET; `why` gets one line.
 */
must_check int fab__tls_step(struct fab_tls *tls, char why[FAB_WHY_MAX]);

/* The name of the key that the peer proved. */
const char *fab__tls_key_id(const struct fab_tls *tls);

/*
 * Like recv() and sendmsg() without waiting, but errors are returned: -EAGAIN, -ECONNRESET.  Bytes
 * that did not fit must be given again, followed by newer ones.  They may allocate, even in a
 * polling thread.
 */
must_check ssize_t fab__tls_recv(struct fab_tls *tls, void *to, size_t size);
must_check ssize_t fab__tls_send(struct fab_tls *tls, const struct iovec *iov, uint32_t count);

/* Instead of after FAB_TLS_RECORDS_MAX; and how often keys were replaced. */
void fab__tls_rekey_after(struct fab_tls *tls, uint64_t records);
uint64_t fab__tls_rekeys(const struct fab_tls *tls, bool sent);

/* The least that a TLS client's first bytes are known by. */
static inline bool fab__tls_looks_like(uint8_t first)
{
	return first == 0x16; /* a handshake record */
}

#endif

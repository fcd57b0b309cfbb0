/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * TLS 1.3 with a pre-shared key, by OpenSSL.
 *
 *   client                                         appliance
 *     ClientHello { identity = key id, binder } -->  its secret is looked up
 *               <-- ServerHello, Finished
 *     Finished -->
 *     the hello of PROTOCOL.md 3, as over a bare connection: it proves the key once more
 *
 *   PSK = HMAC-SHA256(secret, "weka fabric tls 1.3 psk" and zeros, 32 bytes)
 *
 * So a holder of only the PSK (it is in OpenSSL's memory, unlike the secret) has not got the key.
 *
 *   M1 -> M2   the one BIO_METHOD is filled in before another thread finds it
 *
 * Invariants:
 *  (1) No certificate, no session ticket, no version but 1.3, no key exchange without
 *      Diffie-Hellman: recorded traffic stays closed when a key becomes known later
 *      [test_fab_tls:version_1_2_is_refused, test_fab_tls:who_offers_no_key_is_refused].
 *  (2) An unknown key id is handled like a wrong secret: with a PSK that nobody has.
 *  (3) Pieces of 4 KiB and more are encrypted from their place; smaller ones are gathered into
 *      one record.
 *  (4) No key enciphers more than FAB_TLS_RECORDS_MAX records of one direction (RFC 8446 5.5): the
 *      side that has sent or received that many asks for new keys both ways before the next
 *      record.  OpenSSL does not count; it reports each record and each KeyUpdate, and answers a
 *      peer's KeyUpdate request by itself.
 *  (5) OpenSSL allocates at any time.  A TLS connection is the one place where a polling thread
 *      may: its seal is lifted for the call [e2e_tls].
 */
#include "fabric/link/fab_tls.h"

#include "base/secret.h"
#include "base/seal.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#define RECORD_BYTES 16384u
#define GATHER_MAX   4095u /* larger pieces are records of their own */
#define PSK_BYTES    32u
#define SUITES       "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"

static const char psk_label[32] = "weka fabric tls 1.3 psk";
static const unsigned char psk_suite[2] = { 0x13, 0x01 }; /* TLS_AES_128_GCM_SHA256 */

struct fab_tls {
	SSL *ssl;
	int fd;
	bool asked; /* a server: some key id was looked up */
	uint8_t psk[PSK_BYTES];
	char key_id[FAB_KEY_ID_MAX + 1];
	uint64_t records[2]; /* received, sent: under the key of now */
	uint64_t records_max;
	uint64_t rekeys[2]; /* KeyUpdates received, sent */
	uint8_t gather[RECORD_BYTES];
};

struct fab_tls_host {
	SSL_CTX *ctx;
	struct fab_tls_keys keys;
};

/* ---- the socket under it: no signal, no wait ------------------------------------------ */

static int sock_write(BIO *bio, const char *bytes, int size)
{
	struct fab_tls *tls = BIO_get_data(bio);
	ssize_t sent = send(tls->fd, bytes, (size_t)size, MSG_NOSIGNAL | MSG_DONTWAIT);

	ASSERT(size > 0);
	BIO_clear_retry_flags(bio);
	if (sent < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_write(bio);
	return (int)sent;
}

static int sock_read(BIO *bio, char *to, int size)
{
	struct fab_tls *tls = BIO_get_data(bio);
	ssize_t got = recv(tls->fd, to, (size_t)size, MSG_DONTWAIT);

	ASSERT(size > 0);
	BIO_clear_retry_flags(bio);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_read(bio);
	return (int)got;
}

static long sock_ctrl(BIO *bio, int cmd, long arg, void *pointer)
{
	(void)bio;
	(void)arg;
	(void)pointer;
	return cmd == BIO_CTRL_FLUSH;
}

static BIO_METHOD *sock_method(void)
{
	static _Atomic(BIO_METHOD *) made;
	BIO_METHOD *method = atomic_load_explicit(&made, memory_order_acquire); /* M2 */
	BIO_METHOD *none = NULL;

	if (method)
		return method;
	method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "weka socket");
	if (!method)
		return NULL;
	BIO_meth_set_write(method, sock_write);
	BIO_meth_set_read(method, sock_read);
	BIO_meth_set_ctrl(method, sock_ctrl);
	if (atomic_compare_exchange_strong_explicit(&made, &none, method, /* M1, M2 */
						    memory_order_acq_rel, memory_order_acquire))
		return method;
	BIO_meth_free(method);
	return none;
}

/* ---- keys ------------------------------------------------------------------------------ */

static void psk_make(uint8_t psk[PSK_BYTES], const uint8_t secret[FAB_KEY_BYTES])
{
	unsigned int bytes = 0;

	ASSERT(HMAC(EVP_sha256(), secret, FAB_KEY_BYTES, (const unsigned char *)psk_label,
		    sizeof(psk_label), psk, &bytes));
	ASSERT(bytes == PSK_BYTES);
}

/* Makes the session object that OpenSSL needs: the PSK, its cipher and version. */
static SSL_SESSION *session_make(SSL *ssl, const uint8_t psk[PSK_BYTES])
{
	const SSL_CIPHER *suite = SSL_CIPHER_find(ssl, psk_suite);
	SSL_SESSION *session = SSL_SESSION_new();

	ASSERT(ssl && psk);
	if (session && suite && SSL_SESSION_set1_master_key(session, psk, PSK_BYTES) &&
	    SSL_SESSION_set_cipher(session, suite) &&
	    SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
		return session;
	SSL_SESSION_free(session);
	return NULL;
}

static int client_psk(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *id_bytes,
		      SSL_SESSION **session)
{
	struct fab_tls *tls = SSL_get_app_data(ssl);

	*session = NULL;
	if (md && EVP_MD_get_type(md) != EVP_MD_get_type(EVP_sha256()))
		return 1; /* our PSK is of SHA-256 only */
	*session = session_make(ssl, tls->psk);
	*id = (const unsigned char *)tls->key_id;
	*id_bytes = strlen(tls->key_id);
	return *session != NULL;
}

static int server_psk(SSL *ssl, const unsigned char *id, size_t id_bytes, SSL_SESSION **session)
{
	struct fab_tls *tls = SSL_get_app_data(ssl);
	struct fab_tls_host *host = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	uint8_t secret[FAB_KEY_BYTES];

	ASSERT(getrandom(secret, sizeof(secret), 0) == sizeof(secret)); /* (2) */
	tls->asked = true;
	if (id_bytes > 0 && id_bytes <= FAB_KEY_ID_MAX && !memchr(id, 0, id_bytes)) {
		memcpy(tls->key_id, id, id_bytes);
		tls->key_id[id_bytes] = 0;
		if (host->keys.secret(host->keys.ctx, tls->key_id, secret))
			ASSERT(getrandom(secret, sizeof(secret), 0) == sizeof(secret));
	}
	psk_make(tls->psk, secret);
	secret_wipe(secret, sizeof(secret));
	*session = session_make(ssl, tls->psk);
	secret_wipe(tls->psk, sizeof(tls->psk));
	return *session != NULL;
}

/* ---- records, counted (4) ------------------------------------------------------------------- */

static void saw(int sent, int version, int type, const void *bytes, size_t size, SSL *ssl,
		void *arg)
{
	struct fab_tls *tls = arg;
	const uint8_t *message = bytes;

	ASSERT(sent == 0 || sent == 1);
	(void)version;
	(void)ssl;
	if (type == SSL3_RT_HEADER)
		tls->records[sent]++;
	if (type != SSL3_RT_HANDSHAKE || size == 0 || message[0] != SSL3_MT_KEY_UPDATE)
		return;
	tls->records[sent] = 0;
	tls->rekeys[sent]++;
}

/* Not while a record is half-sent: OpenSSL refuses, and is asked again. */
static void rekey_when_due(struct fab_tls *tls)
{
	ASSERT(tls->records_max > 0 && tls->records_max <= FAB_TLS_RECORDS_MAX); /* (4) */
	if (likely(max_u64(tls->records[0], tls->records[1]) < tls->records_max))
		return;
	if (SSL_get_key_update_type(tls->ssl) == SSL_KEY_UPDATE_NONE &&
	    !SSL_key_update(tls->ssl, SSL_KEY_UPDATE_REQUESTED))
		ERR_clear_error();
}

void fab__tls_rekey_after(struct fab_tls *tls, uint64_t records)
{
	ASSERT(records > 0 && records <= FAB_TLS_RECORDS_MAX); /* (4) */
	tls->records_max = records;
}

uint64_t fab__tls_rekeys(const struct fab_tls *tls, bool sent)
{
	return tls->rekeys[sent];
}

/* ---- making ------------------------------------------------------------------------------ */

/* (1) */
static SSL_CTX *ctx_make(bool server)
{
	SSL_CTX *ctx = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());

	if (!ctx)
		return NULL;
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_verify(ctx, server ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_read_ahead(ctx, 1);
	if (SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) &&
	    SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) &&
	    SSL_CTX_set_ciphersuites(ctx, SUITES) && SSL_CTX_set_num_tickets(ctx, 0))
		return ctx;
	SSL_CTX_free(ctx);
	return NULL;
}

int fab__tls_host_create(struct fab_tls_host **out, const struct fab_tls_keys *keys)
{
	struct fab_tls_host *host = calloc(1, sizeof(*host));

	ASSERT(keys->secret);
	if (!host)
		return -ENOMEM;
	host->ctx = ctx_make(true);
	host->keys = *keys;
	if (!host->ctx) {
		free(host);
		return -ENOMEM;
	}
	SSL_CTX_set_app_data(host->ctx, host);
	SSL_CTX_set_psk_find_session_callback(host->ctx, server_psk);
	*out = host;
	return 0;
}

void fab__tls_host_destroy(struct fab_tls_host *host)
{
	if (!host)
		return;
	SSL_CTX_free(host->ctx);
	free(host);
}

static int tls_make(struct fab_tls **out, SSL_CTX *ctx, int fd)
{
	struct fab_tls *tls = calloc(1, sizeof(*tls));
	BIO_METHOD *method = sock_method();
	BIO *bio = method ? BIO_new(method) : NULL;

	ASSERT(fd >= 0);
	if (tls)
		tls->ssl = SSL_new(ctx);
	if (!tls || !tls->ssl || !bio) {
		BIO_free(bio);
		fab__tls_free(tls);
		return -ENOMEM;
	}
	tls->fd = fd;
	BIO_set_data(bio, tls);
	BIO_set_init(bio, 1);
	SSL_set_bio(tls->ssl, bio, bio);
	SSL_set_app_data(tls->ssl, tls);
	tls->records_max = FAB_TLS_RECORDS_MAX;
	SSL_set_msg_callback(tls->ssl, saw);
	SSL_set_msg_callback_arg(tls->ssl, tls);
	*out = tls;
	return 0;
}

int fab__tls_accept(struct fab_tls **out, struct fab_tls_host *host, int fd)
{
	int err = tls_make(out, host->ctx, fd);

	if (!err)
		SSL_set_accept_state((*out)->ssl);
	return err;
}

int fab__tls_connect(struct fab_tls **out, const struct fab_key *key, int fd)
{
	SSL_CTX *ctx = ctx_make(false);
	int err = ctx ? tls_make(out, ctx, fd) : -ENOMEM;

	ASSERT(key->id[0]);
	SSL_CTX_free(ctx); /* the connection holds it */
	if (err)
		return err;
	psk_make((*out)->psk, key->secret);
	memcpy((*out)->key_id, key->id, sizeof((*out)->key_id));
	SSL_set_psk_use_session_callback((*out)->ssl, client_psk);
	SSL_set_connect_state((*out)->ssl);
	return 0;
}

void fab__tls_free(struct fab_tls *tls)
{
	if (!tls)
		return;
	SSL_free(tls->ssl);
	secret_wipe(tls->psk, sizeof(tls->psk));
	free(tls);
}

void fab__tls_lane_id(char id[FAB_KEY_ID_MAX + 1], uint64_t session_id)
{
	ASSERT(session_id != 0);
	memset(id, 0, FAB_KEY_ID_MAX + 1);
	snprintf(id, FAB_KEY_ID_MAX + 1, "lane %llu", (unsigned long long)session_id);
}

const char *fab__tls_key_id(const struct fab_tls *tls)
{
	return tls->key_id;
}

/* ---- the handshake -------------------------------------------------------------------------- */

static int failed(char why[FAB_WHY_MAX], int err, const char *what)
{
	ASSERT(err < 0);
	snprintf(why, FAB_WHY_MAX, "TLS: %s", what);
	return err;
}

static bool is_alert_about_key(int reason)
{
	return reason == SSL_R_TLSV1_ALERT_DECRYPT_ERROR ||
	       reason == SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER ||
	       reason == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE ||
	       reason == SSL_R_TLSV1_ALERT_ACCESS_DENIED;
}

/* Why, from what OpenSSL noted first. */
static wk_cold int explain(const struct fab_tls *tls, char why[FAB_WHY_MAX])
{
	unsigned long code = ERR_peek_error();
	int reason = code ? ERR_GET_REASON(code) : 0;
	char text[160];

	if (code == 0)
		return failed(why, -ECONNRESET, "the peer closed the connection in the handshake");
	if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST ||
	    reason == SSL_R_HTTPS_PROXY_REQUEST)
		return failed(why, -EPROTO, "the peer speaks something else: it may want tcp://");
	if (reason == SSL_R_UNSUPPORTED_PROTOCOL || reason == SSL_R_TLSV1_ALERT_PROTOCOL_VERSION)
		return failed(why, -EPROTO, "the peer has no version 1.3");
	if (reason == SSL_R_BINDER_DOES_NOT_VERIFY)
		return failed(why, -EACCES, "its key is unknown here, or its secret is another");
	if (is_alert_about_key(reason))
		return failed(why, -EACCES, "the key is unknown there, or its secret is another");
	if (SSL_is_server(tls->ssl) && !tls->asked)
		return failed(why, -EACCES, "the peer offers no pre-shared key");
	ERR_error_string_n(code, text, sizeof(text));
	snprintf(why, FAB_WHY_MAX, "TLS: the handshake failed: %s", text);
	return -EPROTO;
}

int fab__tls_step(struct fab_tls *tls, char why[FAB_WHY_MAX])
{
	int rc;

	ASSERT(tls->ssl);
	ERR_clear_error();
	rc = SSL_do_handshake(tls->ssl);
	if (rc == 1) {
		/* A server that had no use for our key has proved nothing. */
		if (!SSL_session_reused(tls->ssl))
			return failed(why, -EACCES, "the peer did not use the key");
		secret_wipe(tls->psk, sizeof(tls->psk));
		return 0;
	}
	rc = SSL_get_error(tls->ssl, rc);
	if (rc == SSL_ERROR_WANT_READ || rc == SSL_ERROR_WANT_WRITE)
		return -EINPROGRESS;
	rc = explain(tls, why);
	ERR_clear_error();
	return rc;
}

/* ---- bytes ---------------------------------------------------------------------------------- */

static ssize_t not_now(const struct fab_tls *tls, int rc)
{
	int err = SSL_get_error(tls->ssl, rc);

	if (err == SSL_ERROR_WANT_READ || err == SSL_ERROR_WANT_WRITE)
		return -EAGAIN;
	ERR_clear_error();
	return -ECONNRESET;
}

ssize_t fab__tls_recv(struct fab_tls *tls, void *to, size_t size)
{
	enum seal_mode sealed = seal_thread_lift(); /* (5) */
	ssize_t got;

	ASSERT(size > 0);
	ERR_clear_error();
	got = SSL_read(tls->ssl, to, (int)min_u64(size, INT32_MAX));
	if (got <= 0)
		got = not_now(tls, (int)got);
	seal_thread_back(sealed);
	return got;
}

/* Builds the next record: all small pieces at the front, or as much of a large one as fits. */
static const void *record_next(struct fab_tls *tls, const struct iovec *iov, uint32_t count,
			       uint64_t skip, uint32_t *size)
{
	const uint8_t *from = (const uint8_t *)iov->iov_base + skip;
	uint64_t bytes = iov->iov_len - skip;

	ASSERT(count > 0 && skip < iov->iov_len);
	*size = (uint32_t)min_u64(bytes, RECORD_BYTES);
	if (bytes > GATHER_MAX || count == 1) /* (3) */
		return from;
	*size = 0;
	for (uint32_t i = 0; i < count; i++) {
		from = (const uint8_t *)iov[i].iov_base + (i ? 0 : skip);
		bytes = iov[i].iov_len - (i ? 0 : skip);
		if (bytes > GATHER_MAX || *size + bytes > RECORD_BYTES)
			break;
		memcpy(tls->gather + *size, from, bytes);
		*size += (uint32_t)bytes;
	}
	ASSERT(*size <= RECORD_BYTES); /* (3) */
	return tls->gather;
}

static ssize_t send_all(struct fab_tls *tls, const struct iovec *iov, uint32_t count)
{
	uint64_t skip = 0;
	ssize_t done = 0;

	ASSERT(count > 0);
	ERR_clear_error();
	while (count > 0) {
		uint32_t size;
		const void *record = record_next(tls, iov, count, skip, &size);
		int sent;

		rekey_when_due(tls);
		sent = SSL_write(tls->ssl, record, (int)size);
		if (sent <= 0)
			return done > 0 ? done : not_now(tls, sent);
		done += sent;
		skip += (uint32_t)sent;
		while (count > 0 && skip >= iov->iov_len) {
			skip -= iov->iov_len;
			iov++;
			count--;
		}
	}
	return done;
}

ssize_t fab__tls_send(struct fab_tls *tls, const struct iovec *iov, uint32_t count)
{
	enum seal_mode sealed = seal_thread_lift(); /* (5) */
	ssize_t done = send_all(tls, iov, count);

	ASSERT(count > 0);
	seal_thread_back(sealed);
	return done;
}

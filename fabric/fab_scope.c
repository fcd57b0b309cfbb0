/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Handles as a confined client sees them: enciphered, so that one that the client was not given
 * is one in 2^128.  A handle fills its 16 bytes, which are one block of AES: there is no room for a
 * mark of who may use it, and none is needed.
 *
 *   store's handle --AES-128 by HMAC-SHA256(handle secret, label)--> the client's handle
 *
 * The handle secret is the appliance's alone and lasts as long as the key: handles outlive sessions
 * and restarts, as a reader that connects again needs.
 */
/* The block cipher itself is wanted: constant, in memory of our choice, from any core at once. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "fabric/fab_server_internal.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

static_assert(FAB_HANDLE_BYTES == AES_BLOCK_SIZE, "one block");

void fab__scope_init(struct fab__scope *scope, const uint8_t handle_secret[FAB_KEY_BYTES])
{
	static const char label[32] = "weka fabric handles";
	unsigned int bytes = 0;
	uint8_t key[32];

	ASSERT(HMAC(EVP_sha256(), handle_secret, FAB_KEY_BYTES, (const uint8_t *)label,
		    sizeof(label), key, &bytes));
	ASSERT(bytes == sizeof(key));
	ASSERT(AES_set_encrypt_key(key, 128, &scope->seal) == 0);
	ASSERT(AES_set_decrypt_key(key, 128, &scope->open) == 0);
	secret_wipe(key, sizeof(key));
}

struct fab_handle fab_handle_open(const struct fab_session *session, const struct fab_handle *h)
{
	struct fab_handle out = *h;

	if (unlikely(session->scope))
		AES_decrypt(h->bytes, out.bytes, &session->scope->open);
	return out;
}

struct fab_handle fab_handle_seal(const struct fab_session *session, const struct fab_handle *h)
{
	struct fab_handle out = *h;

	if (unlikely(session->scope))
		AES_encrypt(h->bytes, out.bytes, &session->scope->seal);
	return out;
}

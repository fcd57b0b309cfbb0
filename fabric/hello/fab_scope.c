/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Handles of a confined client: enciphered, so that a client guesses a handle that it was not given
 * with a chance of one in 2^128.  A handle fills its 16 bytes, which are one block of AES: there is
 * no room for the identity of its client, and it needs none.
 *
 *   store's handle --AES-128 by HMAC-SHA256(handle secret, label, who)--> the client's handle
 *
 *   who   client with an id:    fab_session.client, the same in its next session
 *         client without an id: its session's own key, valid for that session only
 *         key with a user:      in addition the user and its groups
 *
 * Only the appliance knows the handle secret, which lasts as long as the key.  So handles of a
 * client with an id outlive sessions and restarts, as a reader that reconnects needs.  They are
 * worthless to any other client, even with the same key.
 */
/* The block cipher itself is wanted: constant, in memory of our choice, from any core at once. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "fabric/hello/fab_server_internal.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stddef.h>
#include <string.h>

static_assert(FAB_HANDLE_BYTES == AES_BLOCK_SIZE, "one block");

void fab__scope_init(struct fab__scope *scope, const uint8_t handle_secret[FAB_KEY_BYTES],
		     uint64_t client, const uint8_t session_secret[FAB_KEY_BYTES],
		     const struct fab_rights *rights)
{
	struct text {
		char label[32];
		uint8_t who[FAB_KEY_BYTES];
		le32 user[2 + FAB_GROUPS_MAX]; /* only of a key that has one */
	} text = { .label = "weka fabric handles" };
	size_t text_bytes = rights->has_uid ? sizeof(text) : offsetof(struct text, user);
	unsigned int bytes = 0;
	uint8_t key[32];
	le64 id = le64_of(client);

	ASSERT(rights->gids <= FAB_GROUPS_MAX);
	if (client)
		memcpy(text.who, &id, sizeof(id));
	else
		memcpy(text.who, session_secret, sizeof(text.who));
	text.user[0] = le32_of(rights->uid);
	text.user[1] = le32_of(rights->gids);
	for (uint32_t i = 0; i < rights->gids; i++)
		text.user[2 + i] = le32_of(rights->gid[i]);
	ASSERT(HMAC(EVP_sha256(), handle_secret, FAB_KEY_BYTES, (const uint8_t *)&text, text_bytes,
		    key, &bytes));
	ASSERT(bytes == sizeof(key));
	ASSERT(AES_set_encrypt_key(key, 128, &scope->seal) == 0);
	ASSERT(AES_set_decrypt_key(key, 128, &scope->open) == 0);
	secret_wipe(key, sizeof(key));
	secret_wipe(&text, sizeof(text));
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

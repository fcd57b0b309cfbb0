/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Keys, which clients prove to hold, and their rights.
 *
 * The fabric proves keys, and ends the sessions of a key that is removed.  The appliance enforces
 * the rights in fab_session.rights.  They never change while a session exists, so every core may
 * read them; a key with changed rights is a new key, and the sessions of the old one end.
 */
#ifndef FABRIC_FAB_KEY_H
#define FABRIC_FAB_KEY_H

#include "base/assert.h"

#include <stdbool.h>
#include <stdint.h>

#define FAB_KEY_BYTES     32u
#define FAB_KEY_ID_MAX    31u  /* bytes of a key's name                        */
#define FAB_SUBTREE_MAX   255u /* bytes of the path that a key is confined to  */
#define FAB_GROUPS_MAX    16u  /* of a key's user                              */
#define FAB_KEYS_DEFAULT  64u
#define FAB_KEYS_MAX      4097u
#define FAB_KEY_ANONYMOUS "anonymous" /* its secret is zeros, which is public */
#define FAB_KEY_ROOT      "@root"     /* so is this one's: its peer is proved by the kernel */

struct fab_server;
struct fab_session;
struct fab_handle;

struct fab_key {
	char id[FAB_KEY_ID_MAX + 1]; /* printable, NUL-terminated, padded with zeros */
	uint8_t secret[FAB_KEY_BYTES];
};

/* The peer of a connection, as the appliance sees it; each value includes the ones before it. */
enum fab_peer {
	FAB_PEER_ANY,
	FAB_PEER_LOCAL, /* of this machine                                                    */
	FAB_PEER_OWNER, /* over shm, and the kernel says that it is root or the appliance's user */
};

struct fab_rights {
	char subtree[FAB_SUBTREE_MAX + 1]; /* "": everything; else "/a/b", no slash at the end */
	bool may_write;
	enum fab_peer peer;   /* the key is good for such peers only */
	uint64_t ops_per_s;   /* 0: no limit */
	uint64_t bytes_per_s; /* of payload, both ways; 0: no limit */
	/* The user for checks of modes and owners, which the appliance makes. */
	bool has_uid; /* else modes and owners are not checked */
	uint32_t uid;
	uint32_t gids;
	uint32_t gid[FAB_GROUPS_MAX];
};

/* A key with all its properties on the appliance. */
struct fab_grant {
	struct fab_key key;
	struct fab_rights rights;
	/* Enciphers handles for a key without full rights; never given to the client. */
	uint8_t handle_secret[FAB_KEY_BYTES];
};

/**
 * fab_server_key_set - from now on this key is good, and no other of its id
 *
 * Another of that id ends, as by fab_server_key_remove().  The caller wipes `grant`.
 *
 * Returns: 1; 0 when it is the same already, and stays with its sessions.
 * Errors:  -EINVAL (id or subtree makes no sense), -ENOSPC (more than cfg.keys_max).
 * Thread:  control, like all calls here unless they say otherwise.
 */
must_check int fab_server_key_set(struct fab_server *srv, const struct fab_grant *grant);

/* Admits no more clients with it, and ends its sessions: each request in flight gets its
 * FAB_EVENT_CANCEL with -ECONNRESET.  Returns how many sessions end; -ENOENT: no such key. */
int fab_server_key_remove(struct fab_server *srv, const char *id);

/* Returns the id of the i-th key, or NULL.  Setting and removing keys changes the order. */
const char *fab_server_key_id(const struct fab_server *srv, uint32_t i);

/* The secret of a key that is good now, for TLS with pre-shared keys; -ENOENT.  Wipe it soon:
 * secret_wipe(). */
must_check int fab_server_key_secret(const struct fab_server *srv, const char *id,
				     uint8_t secret[FAB_KEY_BYTES]);

/* False: RLIMIT_MEMLOCK is too low to keep keys out of swap. */
bool fab_server_keys_locked(const struct fab_server *srv);

/**
 * fab_session_rate_take - ask to begin `count` operations: 0 they may, else wait that many ns
 * fab_session_rate_spend - charge bytes of payload that were moved, either way
 *
 * The rate is common to all sessions of the key.  For a session with a rate only: session->rate.
 * Thread:  any.
 */
must_check uint64_t fab_session_rate_take(const struct fab_session *session, uint32_t count,
					  uint64_t now_ns);
void fab_session_rate_spend(const struct fab_session *session, uint64_t bytes, uint64_t now_ns);

/**
 * fab_handle_open - translate a handle of this session's client to the store's
 * fab_handle_seal - translate a handle of the store to this session's client
 *
 * A client whose key is confined to a subtree, or has a uid, gets handles enciphered for itself: a
 * handle of any other client, with this key or another, or a made-up one, opens to a handle that no
 * file has.  All other clients get them unchanged.
 * Thread:  any.
 */
struct fab_handle fab_handle_open(const struct fab_session *session, const struct fab_handle *h);
struct fab_handle fab_handle_seal(const struct fab_session *session, const struct fab_handle *h);

#endif

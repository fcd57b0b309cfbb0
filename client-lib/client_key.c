/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The key and the list of addresses of a session.  Both come from people, so every mistake gets a
 * line. */
#include "client-lib/client_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WHY_MAX    256 /* weka_client.error */
#define HEX_DIGITS (2 * FAB_KEY_BYTES)

static int hex_digit(char ch)
{
	if (ch >= '0' && ch <= '9')
		return ch - '0';
	ch = (char)(ch | 0x20);
	return ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : -1;
}

/* "SECRET" or "ID:SECRET", the secret as 64 digits; white space may follow. */
static int line_parse(const char *text, size_t bytes, struct fab_key *key)
{
	const char *colon = memchr(text, ':', bytes);
	size_t i, id_bytes = colon ? (size_t)(colon - text) : 0;

	if (colon) {
		if (id_bytes == 0 || id_bytes > FAB_KEY_ID_MAX)
			return -EINVAL;
		memset(key->id, 0, sizeof(key->id));
		memcpy(key->id, text, id_bytes);
		text += id_bytes + 1;
		bytes -= id_bytes + 1;
	}
	while (bytes > 0 && strchr(" \t\r\n", text[bytes - 1]))
		bytes--;
	if (bytes != HEX_DIGITS)
		return -EINVAL;
	for (i = 0; i < FAB_KEY_BYTES; i++) {
		int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return -EINVAL;
		key->secret[i] = (uint8_t)(high << 4 | low);
	}
	return 0;
}

static int file_read(int fd, const char *path, struct fab_key *key, char *why)
{
	char text[FAB_KEY_ID_MAX + 1 + HEX_DIGITS + 16];
	struct stat st;
	ssize_t got;
	int err;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (st.st_mode & 077)) {
		snprintf(why, WHY_MAX, "%s: a key must be a file that only its owner may read",
			 path);
		return -EACCES;
	}
	got = read(fd, text, sizeof(text));
	if (got < 0) {
		err = -errno;
		snprintf(why, WHY_MAX, "%s: %s", path, strerror(errno));
		return err;
	}
	ASSERT((size_t)got <= sizeof(text));
	err = line_parse(text, (size_t)got, key);
	explicit_bzero(text, sizeof(text));
	if (err)
		snprintf(why, WHY_MAX,
			 "%s: a key is %u hexadecimal digits, perhaps behind ID:", path,
			 HEX_DIGITS);
	return err;
}

int client__key(const struct weka_key *key, struct fab_key *out, char *why)
{
	const char *id = key && key->id ? key->id : "weka";
	static_assert(sizeof(FAB_KEY_ANONYMOUS) <= sizeof(out->id), "room");
	int fd, err;

	if (!key) { /* the anonymous key, whose secret is zeros */
		memset(out, 0, sizeof(*out));
		memcpy(out->id, FAB_KEY_ANONYMOUS, sizeof(FAB_KEY_ANONYMOUS));
		return 0;
	}
	if (key->reserved[0] | key->reserved[1] | key->reserved[2]) {
		snprintf(why, WHY_MAX, "key: a field that this version does not know is not 0");
		return -EINVAL;
	}
	if (!key->secret == !key->file || strlen(id) > FAB_KEY_ID_MAX) {
		snprintf(why, WHY_MAX,
			 "a key has an id of at most %u bytes, and a secret or a file",
			 FAB_KEY_ID_MAX);
		return -EINVAL;
	}
	memset(out, 0, sizeof(*out));
	memcpy(out->id, id, strlen(id));
	if (key->secret) {
		memcpy(out->secret, key->secret, sizeof(out->secret));
		return 0;
	}
	fd = open(key->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		err = -errno;
		snprintf(why, WHY_MAX, "%s: %s", key->file, strerror(errno));
		return err;
	}
	err = file_read(fd, key->file, out, why);
	close(fd);
	if (!err && key->id && strcmp(key->id, out->id) != 0) {
		snprintf(why, WHY_MAX, "%s: holds the key %s, not %s", key->file, out->id, key->id);
		return -EINVAL;
	}
	return err;
}

/* Orders transports: shared memory, then RDMA, then sockets. */
static uint32_t rank(const char *address)
{
	if (strncmp(address, "shm:", 4) == 0)
		return 0;
	return strncmp(address, "rdma:", 5) == 0 ? 1 : 2;
}

/* Sorts by transport; addresses of one transport keep the order of the caller's list. */
static void address_add(struct weka_client *c, char *address)
{
	uint32_t at = c->address_count++;

	ASSERT(at < CLIENT_ADDRESSES);
	for (; at > 0 && rank(c->addresses[at - 1]) > rank(address); at--)
		c->addresses[at] = c->addresses[at - 1];
	c->addresses[at] = address;
	ASSERT(at == 0 || rank(c->addresses[at - 1]) <= rank(c->addresses[at]));
}

int client__addresses(struct weka_client *c, const char *text, char *why)
{
	const char *end;
	char *address;

	ASSERT(c->address_count == 0);
	for (; text; text = *end ? end + 1 : NULL) {
		end = text + strcspn(text, ",");
		if (end == text || c->address_count == CLIENT_ADDRESSES) {
			snprintf(why, WHY_MAX, "1 to %u addresses, with commas between",
				 CLIENT_ADDRESSES);
			return -EINVAL;
		}
		address = strndup(text, (size_t)(end - text));
		if (!address)
			return -ENOMEM;
		address_add(c, address);
	}
	ASSERT(c->address_count <= CLIENT_ADDRESSES);
	return c->address_count > 0 ? 0 : -EINVAL;
}

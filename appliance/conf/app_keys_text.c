/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * A key's file: text to rights and back.  Lines of "name = value", comments behind '#'.
 *
 * Not libinih: it keeps lines in buffers that are never wiped.  This code copies a secret only to
 * its place in *out.
 */
#include "appliance/conf/app_conf.h"
#include "appliance/conf/app_keys.h"
#include "base/num.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum field {
	FIELD_SECRET,
	FIELD_HANDLES,
	FIELD_PATH,
	FIELD_RIGHTS,
	FIELD_OPS,
	FIELD_BYTES,
	FIELD_UID,
	FIELD_GIDS,
	FIELDS
};

static const char *const field_name[FIELDS] = {
	[FIELD_SECRET] = "secret", [FIELD_HANDLES] = "handles", [FIELD_PATH] = "path",
	[FIELD_RIGHTS] = "rights", [FIELD_OPS] = "ops",         [FIELD_BYTES] = "bytes",
	[FIELD_UID] = "uid",       [FIELD_GIDS] = "gids",
};

struct piece { /* of the text: not terminated */
	const char *at;
	size_t bytes;
};

/* ---- values ------------------------------------------------------------------------------ */

static int hex_digit(char ch)
{
	if (ch >= '0' && ch <= '9')
		return ch - '0';
	if (ch >= 'a' && ch <= 'f')
		return ch - 'a' + 10;
	return ch >= 'A' && ch <= 'F' ? ch - 'A' + 10 : -1;
}

static int secret_take(struct piece v, uint8_t out[FAB_KEY_BYTES])
{
	if (v.bytes != 2 * FAB_KEY_BYTES)
		return -EINVAL;
	for (uint32_t i = 0; i < FAB_KEY_BYTES; i++) {
		int high = hex_digit(v.at[2 * i]), low = hex_digit(v.at[2 * i + 1]);

		if (high < 0 || low < 0)
			return -EINVAL;
		out[i] = (uint8_t)(high << 4 | low);
	}
	return 0;
}

static bool is_text(struct piece v, const char *text)
{
	return v.bytes == strlen(text) && memcmp(v.at, text, v.bytes) == 0;
}

static int number_take(struct piece v, uint64_t *out)
{
	char text[32];

	if (v.bytes == 0 || v.bytes >= sizeof(text))
		return -EINVAL;
	memcpy(text, v.at, v.bytes);
	text[v.bytes] = 0;
	return app_conf_parse_size(text, out);
}

static struct piece trimmed(struct piece p)
{
	while (p.bytes && strchr(" \t\r", p.at[0])) {
		p.at++;
		p.bytes--;
	}
	while (p.bytes && strchr(" \t\r", p.at[p.bytes - 1]))
		p.bytes--;
	return p;
}

/* Parses a uid or gid; all bits set is invalid (chown() ignores it). */
static int id_take(struct piece v, uint32_t *out)
{
	uint64_t n = 0;

	if (v.bytes == 0 || v.bytes > 10)
		return -EINVAL;
	for (size_t i = 0; i < v.bytes; i++) {
		if (v.at[i] < '0' || v.at[i] > '9')
			return -EINVAL;
		n = n * 10 + (uint64_t)(v.at[i] - '0');
	}
	*out = (uint32_t)n;
	return n < UINT32_MAX ? 0 : -EINVAL;
}

static int ids_take(struct piece v, struct fab_rights *out)
{
	while (out->gids < FAB_GROUPS_MAX) {
		const char *comma = memchr(v.at, ',', v.bytes);
		const size_t bytes = comma ? (size_t)(comma - v.at) : v.bytes;

		if (id_take(trimmed((struct piece){ v.at, bytes }), &out->gid[out->gids++]))
			return -EINVAL;
		if (!comma)
			return 0;
		v.at += bytes + 1;
		v.bytes -= bytes + 1;
	}
	return -EINVAL;
}

int app_key_user_parse(const char *uid, const char *gids, struct fab_rights *out)
{
	out->has_uid = true;
	if (id_take((struct piece){ uid, strlen(uid) }, &out->uid))
		return -EINVAL;
	return ids_take((struct piece){ gids, strlen(gids) }, out);
}

static bool has_control(const char *text, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if ((unsigned char)text[i] < ' ')
			return true;
	return false;
}

/* Refuses paths that a line of the file could not hold, or would truncate at the end. */
int app_key_subtree(const char *path, char out[FAB_SUBTREE_MAX + 1])
{
	size_t used = 0;

	if (path[0] != '/')
		return -EINVAL;
	while (*path) {
		size_t bytes;

		while (*path == '/')
			path++;
		bytes = strcspn(path, "/");
		if (bytes == 0)
			break;
		if ((bytes <= 2 && memcmp(path, "..", bytes) == 0) || has_control(path, bytes) ||
		    used + 1 + bytes > FAB_SUBTREE_MAX)
			return -EINVAL;
		out[used++] = '/';
		memcpy(out + used, path, bytes);
		used += bytes;
		path += bytes;
	}
	out[used] = 0;
	return used && out[used - 1] == ' ' ? -EINVAL : 0;
}

static int path_take(struct piece v, struct fab_rights *out)
{
	char text[FAB_SUBTREE_MAX + 2];

	if (v.bytes >= sizeof(text))
		return -EINVAL;
	memcpy(text, v.at, v.bytes);
	text[v.bytes] = 0;
	return app_key_subtree(text, out->subtree);
}

static int rights_take(struct piece v, struct fab_rights *out)
{
	out->may_write = is_text(v, "write");
	return out->may_write || is_text(v, "read") ? 0 : -EINVAL;
}

int app_key_rights_parse(const char *text, struct fab_rights *out)
{
	const char *colon = strchr(text, ':');
	struct piece word = { text, colon ? (size_t)(colon - text) : strlen(text) };

	*out = (struct fab_rights){ 0 };
	if (rights_take(word, out))
		return -EINVAL;
	return colon ? app_key_subtree(colon + 1, out->subtree) : 0;
}

/* ---- a file ------------------------------------------------------------------------------- */

static int field_take(struct fab_grant *out, enum field f, struct piece v)
{
	switch (f) {
	case FIELD_SECRET:
		return secret_take(v, out->key.secret);
	case FIELD_HANDLES:
		return secret_take(v, out->handle_secret);
	case FIELD_PATH:
		return path_take(v, &out->rights);
	case FIELD_RIGHTS:
		return rights_take(v, &out->rights);
	case FIELD_OPS:
		return number_take(v, &out->rights.ops_per_s);
	case FIELD_BYTES:
		return number_take(v, &out->rights.bytes_per_s);
	case FIELD_UID:
		out->rights.has_uid = true;
		return id_take(v, &out->rights.uid);
	case FIELD_GIDS:
		return ids_take(v, &out->rights);
	case FIELDS:
		break;
	}
	UNREACHABLE();
}

static const char *field_wants(enum field f)
{
	switch (f) {
	case FIELD_SECRET:
	case FIELD_HANDLES:
		return "64 hexadecimal digits";
	case FIELD_PATH:
		return "a path from the root, of at most 255 bytes, without \"..\", control "
		       "characters, or a blank at its end";
	case FIELD_RIGHTS:
		return "read or write";
	case FIELD_UID:
		return "a number below 4294967295";
	case FIELD_GIDS:
		return "1 to 16 numbers, with a comma between two; the first is that of new files";
	default:
		return "a number, or one with K, M, G or T";
	}
}

static int say(char *why, uint32_t line, const char *field, const char *what)
{
	snprintf(why, APP_KEY_WHY, "line %u: %s%s%s", line, field, *field ? ": " : "", what);
	return -EINVAL;
}

static int line_take(struct fab_grant *out, struct piece line, uint32_t number, uint32_t *seen,
		     char *why)
{
	const char *equals;
	struct piece name, value;
	uint32_t f;

	line = trimmed(line);
	if (line.bytes == 0 || line.at[0] == '#')
		return 0;
	equals = memchr(line.at, '=', line.bytes);
	if (!equals || memchr(line.at, 0, line.bytes))
		return say(why, number, "", "not of the form name = value");
	name = trimmed((struct piece){ line.at, (size_t)(equals - line.at) });
	value = trimmed((struct piece){ equals + 1, line.bytes - (size_t)(equals + 1 - line.at) });
	for (f = 0; f < FIELDS && !is_text(name, field_name[f]); f++)
		;
	if (f == FIELDS)
		return say(why, number, "",
			   "unknown name; allowed are secret, handles, path, rights, ops, bytes, "
			   "uid and gids");
	if (*seen & 1u << f)
		return say(why, number, field_name[f], "given before");
	*seen |= 1u << f;
	if (field_take(out, (enum field)f, value))
		return say(why, number, field_name[f], field_wants((enum field)f));
	return 0;
}

bool app_key_id_reserved(const char *id)
{
	return strcmp(id, FAB_KEY_ANONYMOUS) == 0 || strcmp(id, FAB_KEY_ROOT) == 0;
}

bool app_key_id_good(const char *id)
{
	size_t bytes = strlen(id);

	if (bytes == 0 || bytes > FAB_KEY_ID_MAX || id[0] == '.' || id[0] == '-' ||
	    app_key_id_reserved(id))
		return false;
	for (size_t i = 0; i < bytes; i++)
		if (id[i] <= ' ' || id[i] > '~' || strchr("/:\"\\", id[i]))
			return false;
	return true;
}

bool app_key_id_of(const char *file, char *id)
{
	size_t bytes = strlen(file), suffix = strlen(APP_KEY_SUFFIX);

	if (bytes <= suffix || bytes - suffix > FAB_KEY_ID_MAX ||
	    strcmp(file + bytes - suffix, APP_KEY_SUFFIX) != 0)
		return false;
	memcpy(id, file, bytes - suffix);
	id[bytes - suffix] = 0;
	return app_key_id_good(id);
}

int app_key_parse(struct fab_grant *out, const char *id, const char *text, size_t size_bytes,
		  char *why)
{
	uint32_t seen = 0, number = 0;
	size_t at = 0;

	*out = (struct fab_grant){ 0 };
	if (!app_key_id_good(id)) {
		snprintf(why, APP_KEY_WHY, "its file name is not a valid key id");
		return -EINVAL;
	}
	memcpy(out->key.id, id, strlen(id));
	while (at < size_bytes) {
		const char *end = memchr(text + at, '\n', size_bytes - at);
		size_t bytes = end ? (size_t)(end - text) - at : size_bytes - at;
		int err = line_take(out, (struct piece){ text + at, bytes }, ++number, &seen, why);

		if (err)
			return err;
		at += bytes + 1;
	}
	if (!(seen & 1u << FIELD_SECRET))
		return say(why, number, "secret", "not given");
	if (!(seen & 1u << FIELD_UID) != !(seen & 1u << FIELD_GIDS))
		return say(why, number, "", "uid and gids: both, or neither");
	if ((out->rights.subtree[0] || out->rights.has_uid) && !(seen & 1u << FIELD_HANDLES))
		return say(why, number, "handles",
			   "not given: a key with a path or a uid needs it");
	return 0;
}

/* ---- back ---------------------------------------------------------------------------------- */

/* Not by printf(), whose buffers are not wiped. */
static char *put(char *to, const char *text)
{
	size_t bytes = strlen(text);

	memcpy(to, text, bytes);
	return to + bytes;
}

static char *put_secret(char *to, const char *name, const uint8_t secret[FAB_KEY_BYTES])
{
	static const char digit[] = "0123456789abcdef";

	to = put(put(to, name), " = ");
	for (uint32_t i = 0; i < FAB_KEY_BYTES; i++) {
		*to++ = digit[secret[i] >> 4];
		*to++ = digit[secret[i] & 15];
	}
	*to++ = '\n';
	return to;
}

static char *put_number(char *to, const char *name, uint64_t value)
{
	char text[64];

	if (value == 0)
		return to;
	snprintf(text, sizeof(text), "%s = %llu\n", name, (unsigned long long)value);
	return put(to, text);
}

static char *put_user(char *to, const struct fab_rights *r)
{
	char text[64];

	if (!r->has_uid)
		return to;
	snprintf(text, sizeof(text), "uid = %u\ngids = ", r->uid);
	to = put(to, text);
	for (uint32_t i = 0; i < r->gids; i++) {
		snprintf(text, sizeof(text), "%s%u", i ? "," : "", r->gid[i]);
		to = put(to, text);
	}
	return put(to, "\n");
}

uint32_t app_key_print(const struct fab_grant *g, char *out)
{
	char *to = put_secret(out, "secret", g->key.secret);

	to = put_secret(to, "handles", g->handle_secret);
	to = put(put(put(to, "path = "), g->rights.subtree[0] ? g->rights.subtree : "/"), "\n");
	to = put(to, g->rights.may_write ? "rights = write\n" : "rights = read\n");
	to = put_number(to, "ops", g->rights.ops_per_s);
	to = put_number(to, "bytes", g->rights.bytes_per_s);
	to = put_user(to, &g->rights);
	ASSERT(to - out < APP_KEY_TEXT_SIZE);
	return (uint32_t)(to - out);
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Extended attributes of the model: a list at each node. */
#include "test/lib/fs_model_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct model_xattr {
	char name[META_XATTR_NAME_MAX + 1];
	uint32_t len;
	uint8_t *value;
	struct model_xattr *next;
};

static void drop(struct model_xattr **at)
{
	struct model_xattr *x = *at;

	*at = x->next;
	free(x->value);
	free(x);
}

void model__xattrs_free(struct model_xattr **list)
{
	while (*list)
		drop(list);
}

/* Where it is, or where it would be. */
static int find(struct model *fs, const char *path, const char *name, bool changes,
		struct model_node **node, struct model_xattr ***at)
{
	struct model_attr attr;
	int err;

	if (!name[0] || strlen(name) > META_XATTR_NAME_MAX)
		return -ERANGE;
	if (strncmp(name, "user.", 5) != 0)
		return -EOPNOTSUPP;
	if (!name[5])
		return -EINVAL;
	*node = model_node(fs, path, META_NOFOLLOW, &err);
	if (err)
		return err;
	model_node_attr(*node, &attr);
	if (attr.type == META_TYPE_SYMLINK)
		return changes ? -EPERM : -ENODATA;
	if (changes && model__is_others_sticky_dir(*node))
		return -EPERM;
	if (!model__may(*node, changes ? "w" : "r"))
		return -EACCES;
	for (*at = model__node_xattrs(*node); **at && strcmp((**at)->name, name) != 0;)
		*at = &(**at)->next;
	return 0;
}

int model_xattr_set(struct model *fs, const char *path, const char *name, const void *value,
		    uint32_t len, uint32_t flags, int64_t now_ns)
{
	struct model_xattr **at, *x;
	struct model_node *n;
	int err = find(fs, path, name, true, &n, &at);

	if (err)
		return err;
	if (*at && flags & META_EXCL)
		return -EEXIST;
	if (!*at && flags & META_MUST_EXIST)
		return -ENODATA;
	if (*at)
		drop(at);
	x = calloc(1, sizeof(*x));
	ASSERT(x);
	memcpy(x->name, name, strlen(name) + 1);
	x->len = len;
	x->value = malloc(len + 1);
	ASSERT(x->value);
	memcpy(x->value, value, len);
	x->next = *model__node_xattrs(n);
	*model__node_xattrs(n) = x;
	model__node_changed(n, now_ns);
	return 0;
}

int model_xattr_del(struct model *fs, const char *path, const char *name, int64_t now_ns)
{
	struct model_xattr **at;
	struct model_node *n;
	int err = find(fs, path, name, true, &n, &at);

	if (err)
		return err;
	if (!*at)
		return -ENODATA;
	drop(at);
	model__node_changed(n, now_ns);
	return 0;
}

int64_t model_xattr_get(struct model *fs, const char *path, const char *name, void *value)
{
	struct model_xattr **at;
	struct model_node *n;
	int err = find(fs, path, name, false, &n, &at);

	if (err)
		return err;
	if (!*at)
		return -ENODATA;
	memcpy(value, (*at)->value, (*at)->len);
	return (*at)->len;
}

bool model_node_xattr(struct model_node *n, uint32_t index, const char **name, const void **value,
		      uint32_t *len)
{
	const struct model_xattr *x = *model__node_xattrs(n);

	while (x && index--)
		x = x->next;
	if (!x)
		return false;
	*name = x->name;
	*value = x->value;
	*len = x->len;
	return true;
}

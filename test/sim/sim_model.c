/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/sim/sim_model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sim_state *sim_state_new(enum sim_type type, uint32_t mode, const void *bytes, uint32_t size)
{
	struct sim_state *s = calloc(1, sizeof(*s));

	ASSERT(s);
	*s = (struct sim_state){ .refs = 1, .type = type, .mode = mode, .size = size };
	s->bytes = malloc(size + 1);
	ASSERT(s->bytes);
	if (bytes)
		memcpy(s->bytes, bytes, size);
	return s;
}

struct sim_state *sim_state_hold(struct sim_state *s)
{
	if (s)
		s->refs++;
	return s;
}

void sim_state_drop(struct sim_state *s)
{
	if (!s || --s->refs > 0)
		return;
	free(s->bytes);
	free(s);
}

bool sim_state_same(const struct sim_state *a, const struct sim_state *b)
{
	if (!a || !b)
		return a == b;
	return a->type == b->type && (a->type == SIM_LINK || a->mode == b->mode) &&
	       (a->type == SIM_DIR ||
		(a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0));
}

static uint32_t find(const struct sim_model *m, const char *path)
{
	uint32_t i = 0;

	while (i < m->count && strcmp(m->node[i].path, path) != 0)
		i++;
	return i;
}

struct sim_state *sim_model_get(const struct sim_model *m, const char *path)
{
	uint32_t i = find(m, path);

	return i < m->count ? m->node[i].state : NULL;
}

void sim_model_set(struct sim_model *m, const char *path, struct sim_state *s)
{
	uint32_t i = find(m, path);
	struct sim_state *old = i < m->count ? m->node[i].state : NULL;

	if (i == m->count && !s)
		return;
	if (i == m->count) {
		ASSERT(m->count < SIM_NODES_MAX && strlen(path) < SIM_PATH_MAX);
		snprintf(m->node[m->count++].path, SIM_PATH_MAX, "%s", path);
	}
	m->node[i].state = sim_state_hold(s);
	sim_state_drop(old);
	if (!s)
		m->node[i] = m->node[--m->count];
}

bool sim_model_has_children(const struct sim_model *m, const char *dir)
{
	size_t length = strlen(dir);

	for (uint32_t i = 0; i < m->count; i++)
		if (strncmp(m->node[i].path, dir, length) == 0 && m->node[i].path[length] == '/')
			return true;
	return false;
}

int sim_model_parent(const struct sim_model *m, const char *path)
{
	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		char dir[SIM_PATH_MAX];
		const struct sim_state *s;

		snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
		s = sim_model_get(m, dir);
		if (!s)
			return -ENOENT;
		if (s->type != SIM_DIR)
			return -ENOTDIR;
	}
	return 0;
}

void sim_model_copy(struct sim_model *to, const struct sim_model *from)
{
	sim_model_clear(to);
	memcpy(to->node, from->node, from->count * sizeof(*from->node));
	to->count = from->count;
	for (uint32_t i = 0; i < to->count; i++)
		sim_state_hold(to->node[i].state);
}

const struct sim_node *sim_model_below(const struct sim_model *m, const char *path, uint32_t *i)
{
	const size_t length = strlen(path);

	for (; *i < m->count; (*i)++) {
		const char *at = m->node[*i].path;

		if (strncmp(at, path, length) == 0 && (at[length] == '/' || !at[length]))
			return &m->node[(*i)++];
	}
	return NULL;
}

void sim_model_clear(struct sim_model *m)
{
	while (m->count > 0)
		sim_state_drop(m->node[--m->count].state);
}

void sim_change_add(struct sim_change *c, const struct sim_model *m, const char *path,
		    struct sim_state *after)
{
	ASSERT(c->count < SIM_CHANGE_MAX);
	snprintf(c->path[c->count], SIM_PATH_MAX, "%s", path);
	c->before[c->count] = sim_state_hold(sim_model_get(m, path));
	c->after[c->count++] = after;
}

bool sim_change_put(struct sim_change *c, const struct sim_model *m, const char *path,
		    struct sim_state *after)
{
	for (uint32_t i = 0; i < c->count; i++)
		if (strcmp(c->path[i], path) == 0) {
			sim_state_drop(c->after[i]);
			c->after[i] = after;
			return true;
		}
	if (c->count == SIM_CHANGE_MAX || strlen(path) >= SIM_PATH_MAX / 2) {
		sim_state_drop(after);
		return false;
	}
	sim_change_add(c, m, path, after);
	return true;
}

void sim_change_copy(struct sim_change *to, const struct sim_change *from)
{
	*to = *from;
	for (uint32_t i = 0; i < to->count; i++) {
		sim_state_hold(to->before[i]);
		sim_state_hold(to->after[i]);
	}
}

uint32_t sim_model_names(const struct sim_model *m, const struct sim_state *s)
{
	uint32_t names = 0;

	for (uint32_t i = 0; i < m->count; i++)
		names += m->node[i].state == s;
	return names;
}

void sim_model_let_go(struct sim_model *m)
{
	for (uint32_t i = m->count; i-- > 0;)
		if (sim_is_hold(m->node[i].path)) {
			sim_state_drop(m->node[i].state);
			m->node[i] = m->node[--m->count];
		}
}

void sim_change_let_go(struct sim_change *c)
{
	for (uint32_t i = c->count; i-- > 0;) {
		if (!sim_is_hold(c->path[i]))
			continue;
		sim_state_drop(c->before[i]);
		sim_state_drop(c->after[i]);
		c->count--;
		memmove(c->path[i], c->path[c->count], SIM_PATH_MAX);
		c->before[i] = c->before[c->count];
		c->after[i] = c->after[c->count];
	}
}

uint32_t sim_model_inodes(const struct sim_model *m)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < m->count; i++) {
		uint32_t first = 0;

		while (m->node[first].state != m->node[i].state)
			first++;
		count += first == i;
	}
	return count;
}

void sim_change_file(struct sim_change *c, const struct sim_model *m, const char *path,
		     struct sim_state *after)
{
	const struct sim_state *old = sim_model_get(m, path);

	for (uint32_t i = 0; i < m->count; i++)
		if (m->node[i].state == old)
			sim_change_add(c, m, m->node[i].path, sim_state_hold(after));
	sim_state_drop(after);
}

void sim_change_apply(struct sim_change *c, struct sim_model *m)
{
	for (uint32_t i = 0; i < c->count; i++)
		sim_model_set(m, c->path[i], c->after[i]);
}

void sim_change_drop(struct sim_change *c)
{
	for (uint32_t i = 0; i < c->count; i++) {
		sim_state_drop(c->before[i]);
		sim_state_drop(c->after[i]);
	}
	c->count = 0;
	c->seen = c->found = false;
}

bool sim_paths_meet(const char *a, const char *b)
{
	size_t la = strlen(a), lb = strlen(b), n = la < lb ? la : lb;

	if (strncmp(a, b, n) != 0)
		return false;
	return la == lb || (la < lb ? b[n] : a[n]) == '/';
}

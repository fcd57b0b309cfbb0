/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* wekactl status: the appliance's counters, as it sends them (--json) or as a page of text. */
#include "appliance/ctl.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_value(const json_t *v)
{
	if (json_is_integer(v))
		printf("%lld", (long long)json_integer_value(v));
	else if (json_is_real(v))
		printf("%.3f", json_real_value(v));
	else if (json_is_string(v))
		printf("%s", json_string_value(v));
	else
		printf("%s", json_is_true(v) ? "yes" : json_is_false(v) ? "no" : "-");
}

/* name value, name value, ... of one flat object, on one line. */
static void print_flat(json_t *o)
{
	const char *key, *between = "";
	json_t *v;

	json_object_foreach(o, key, v)
	{
		printf("%s%s ", between, key);
		print_value(v);
		between = ", ";
	}
	printf("\n");
}

static void print_section(const char *key, json_t *v)
{
	size_t i;
	json_t *item;

	if (json_is_object(v)) {
		printf("%-12s ", key);
		print_flat(v);
		return;
	}
	if (!json_is_array(v)) {
		printf("%-12s ", key);
		print_value(v);
		printf("\n");
		return;
	}
	json_array_foreach(v, i, item)
	{
		printf("%-9s %2zu ", key, i);
		if (json_is_object(item))
			print_flat(item);
		else
			print_value(item);
	}
}

int ctl_cmd_status(struct ctl *c)
{
	const char *key;
	json_error_t why;
	json_t *o, *v;
	char *text;
	int err = weka_status(c->client, &text);

	if (err)
		return ctl_fail("status: %s", strerror(-err));
	o = json_loads(text, 0, &why);
	if (!o) {
		free(text);
		return ctl_fail("status: the appliance sent what is no JSON: %s", why.text);
	}
	if (c->json)
		puts(text);
	else
		json_object_foreach(o, key, v) print_section(key, v);
	json_decref(o);
	free(text);
	return 0;
}

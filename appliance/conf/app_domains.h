/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Failure domains of drives, as the configuration names them.
 *
 * The store knows numbers only (meta_domain.c).  The number of a name stays the same as long as the
 * daemon runs.
 */
#ifndef APP_DOMAINS_H
#define APP_DOMAINS_H

#include "base/assert.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define APP_CONF_DRIVES_MAX 64u
#define APP_CONF_TEXT_MAX   200u /* bytes of a value, with its NUL        */
#define APP_DOMAIN_MAX      32u  /* bytes of a name, with its NUL */

struct app_domains {
	uint32_t count;
	char name[APP_CONF_DRIVES_MAX][APP_DOMAIN_MAX]; /* of number 1, 2 ... */
	uint32_t drives;                                /* that are in one */
	struct {
		char drive[APP_CONF_TEXT_MAX];
		uint32_t domain;
	} of[APP_CONF_DRIVES_MAX];
};

/* Finds the number of a name, or gives it the next one.  False: it cannot be a name. */
must_check bool app_domains_number(struct app_domains *domains, const char *name, uint32_t *number);
/* Notes the domain of a drive, by its name in the configuration; 0: it has none. */
void app_domains_put(struct app_domains *domains, const char *drive, uint32_t domain);
/* Returns the domain of a drive; 0: none.  The drive may have the short name that a store keeps of
 * one that is missing: "..." and the end. */
uint32_t app_domains_of(const struct app_domains *domains, const char *drive);
/* Returns the name of a number; "": of none. */
const char *app_domains_name(const struct app_domains *domains, uint32_t number);
/* Is any drive of either in a domain of another name there? */
bool app_domains_differ(const struct app_domains *a, const struct app_domains *b);

#endif

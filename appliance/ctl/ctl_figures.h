/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* wekactl: figures and words of the appliance's JSON, as people read them. */
#ifndef CTL_FIGURES_H
#define CTL_FIGURES_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

struct ctl_text {
	char s[96];
};

/* Returns a number of a flat object, or of an object in it: group.key.  Returns 0 if it is missing
 * or negative. */
uint64_t ctl_num(const json_t *o, const char *group, const char *key);
/* Returns a text of a flat object; bytes that a terminal could trip over become '?'. */
struct ctl_text ctl_word(const json_t *o, const char *key);
struct ctl_text ctl_shown(const char *from);
void ctl_print_shown(FILE *to, const char *s);

struct ctl_text ctl_bytes(double bytes);        /* "34.1 GB", "999 bytes" */
struct ctl_text ctl_short_bytes(double bytes);  /* "34.1 GB", "999 B"     */
struct ctl_text ctl_count(double count);        /* "999", "12.3 k"        */
struct ctl_text ctl_duration(uint64_t seconds); /* "3 h 12 min"           */
struct ctl_text ctl_microseconds(double us);    /* "310 us", "1.2 ms"     */
unsigned ctl_percent(uint64_t part, uint64_t whole);

#endif

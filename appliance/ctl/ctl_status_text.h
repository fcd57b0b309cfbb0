/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#ifndef CTL_STATUS_TEXT_H
#define CTL_STATUS_TEXT_H

#include "base/assert.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#define CTL_STATUS_COLUMNS 80u
#define CTL_STATUS_WHY     256u

/* Asks the appliance for its status: the text, to be freed, and the same as JSON.  Errors: those of
 * weka_status(); -EPROTO if it is no JSON; with a line in `why`. */
struct ctl;
must_check int ctl_status_get(struct ctl *c, char **text, json_t **out, char why[CTL_STATUS_WHY]);

/**
 * ctl_status_page - print an operator's page: warnings first, then a page of lines
 * @status: the appliance's JSON; keys that are missing, or have another type, count as 0
 * @before: the JSON of `seconds` ago, so that rates can be printed, or NULL
 * @columns, @rows: of the terminal, as for ctl_fold(): lines may be of any length here
 */
void ctl_status_page(FILE *to, const json_t *status, const json_t *before, double seconds,
		     uint32_t columns, uint32_t rows);

uint32_t ctl_lost_drives(const json_t *status);
/* Returns how many drives a store with this status may lose now, at least: none that holds the only
 * copy of a block, or of the newest changes in the log. */
uint64_t ctl_may_lose(const json_t *status);

/* Print a rebuild or a drain (the status' object "rebuild"; NULL: none) of a store that keeps so
 * many copies, and has so many drives that can be written: warnings, and its line of the page. */
void ctl_status_rebuild_warn(FILE *to, const json_t *rebuild, uint64_t copies, uint32_t serving);
void ctl_status_rebuild_line(FILE *to, const json_t *rebuild);
/* Writes how far a store is that gets second or third copies. */
void ctl_say_converts(FILE *to, const json_t *status, const char *mark);

/* Every counter, a line for each group of them. */
void ctl_status_all(FILE *to, json_t *status);

#endif

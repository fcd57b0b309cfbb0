/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#ifndef CTL_STATUS_TEXT_H
#define CTL_STATUS_TEXT_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#define CTL_STATUS_COLUMNS 80u

/**
 * ctl_status_page - what an operator looks for: what wants attention first, then a page of lines
 * @status: as the appliance sent it; what is missing there, or is of another type, is 0
 * @before: what it sent `seconds` ago, so that rates can be told, or NULL
 * @columns, @rows: of the terminal, as for ctl_fold(): lines may be of any length here
 */
void ctl_status_page(FILE *to, const json_t *status, const json_t *before, double seconds,
		     uint32_t columns, uint32_t rows);

/* Every counter, a line for each group of them. */
void ctl_status_all(FILE *to, json_t *status);

#endif

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#ifndef CTL_TOP_TEXT_H
#define CTL_TOP_TEXT_H

#include "appliance/ctl/ctl_rates.h"

#define CTL_TOP_COLUMNS    80u
#define CTL_TOP_ROWS_LEAST 12u

struct ctl_top_view {
	enum ctl_order order; /* of clients */
	bool paused;
	bool keys;              /* a person can press some */
	uint32_t columns, rows; /* rows 0: as many as there are lines */
};

/**
 * ctl_top_page - print what happened between two statuses of an appliance
 *
 * No line is wider than view->columns, and there are at most view->rows.  Alarms come first; tables
 * that have no room are cut, and say so.
 */
void ctl_top_page(FILE *to, const json_t *now, const json_t *before,
		  const struct ctl_top_view *view);

/* The same as one JSON object: wekactl-status(5). */
json_t *ctl_top_json(const json_t *now, const json_t *before, enum ctl_order order);

#endif

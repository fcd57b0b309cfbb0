/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#ifndef CTL_FOLD_H
#define CTL_FOLD_H

#include <stdint.h>
#include <stdio.h>

#define CTL_FOLD_COLUMNS_LEAST 40u

/**
 * ctl_fold - print text whose lines are no wider than a terminal
 *
 * A longer line is folded at blanks and continues indented.  With rows_max, which is 0 or at least
 * 2, the text is cut off at the end, and the last row says how much.
 */
void ctl_fold(FILE *to, const char *text, uint32_t columns, uint32_t rows_max);

#endif

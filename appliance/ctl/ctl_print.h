/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Names on standard output: clients choose them, so they may have control characters. */
#ifndef CTL_PRINT_H
#define CTL_PRINT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Prints a name.  With `escape` every byte that is not part of a printable character in UTF-8 is
 * printed as \ooo, and a backslash as \\. */
void ctl_print_name(FILE *to, const char *name, bool escape);
/* The same on standard output, with `escape` if that is a terminal. */
void ctl_print_path(const char *path);
/* Returns a name as JSON text: bytes that are not UTF-8 are escaped as \xNN. */
json_t *ctl_json_name(const char *name);
/* Prints the object on a line of its own, and frees it. */
void ctl_json_print(json_t *o);

#endif

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The version of this program and of its source: for --version, and the first line of a
 * measurement. */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

extern const char version_text[];    /* "0.1.0"                                            */
extern const char version_commit[];  /* "2e08112", "2e08112-dirty", or "unknown" (no git)  */
extern const char version_variant[]; /* "release", "debug", ...                            */

#endif

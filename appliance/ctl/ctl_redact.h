/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Takes the names of files out of lines of the log. */
#ifndef CTL_REDACT_H
#define CTL_REDACT_H

#include "appliance/conf/app_conf.h"

#include <stdio.h>

/**
 * ctl_redact - print text without the names of files
 *
 * A path that the configuration has (drives, sockets, files of keys), the configuration itself, and
 * an address stay.  A line ends before any other path, because the name of a file may have blanks.
 * @conf: may be NULL.
 */
void ctl_redact(FILE *to, const char *text, const struct app_conf *conf);

#endif

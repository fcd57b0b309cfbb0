/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* wekactl completion: a shell's completion of commands, their words, and options. */
#ifndef CTL_COMPLETION_H
#define CTL_COMPLETION_H

#include "base/assert.h"

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

/* Prints the script for "bash" or "zsh".  `names` are the commands; `options` ends with zeros.
 * Errors: -EINVAL, another shell. */
must_check int ctl_completion_print(const char *shell, const char *const *names, size_t count,
				    const struct argp_option *options);

#endif

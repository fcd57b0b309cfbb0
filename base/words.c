/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#define _GNU_SOURCE
#include "base/words.h"

#include <string.h>

const char *errno_words(int err)
{
	const char *words = strerrordesc_np(err < 0 ? -err : err);

	return words ? words : "Unknown error";
}

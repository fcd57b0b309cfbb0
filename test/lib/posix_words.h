/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Cases of the POSIX test: a script of words, carried out through the client library.
 *
 *	"file a text; link a b; holds b text; unlink no = ENOENT"
 *
 * does     file P [TEXT]   mkdir P   symlink TEXT P   link P P   rename P P   noreplace P P
 *          exchange P P    unlink P   rmdir P   write P TEXT (in place, at the start)   stat P
 * asserts  gone P   is P file|dir|symlink   same P P   differ P P   links P N   entries P N
 *          holds P TEXT   text P TEXT (of a symlink)
 * times    note P, then changed|unchanged P (ctime), modified|unmodified P (mtime)
 * handles  hold P, then alive or stale
 *
 * A doing word ends well, or as "= ERRNO" says.  A path P is in the case's own directory; but '' is
 * the empty one, and / the root.  In paths and texts @255 and @256 are names of so many bytes, and
 * @long a path of more than PATH_MAX.
 */
#ifndef TEST_POSIX_WORDS_H
#define TEST_POSIX_WORDS_H

#include "client-lib/weka_client.h"

#include <stdbool.h>
#include <stdint.h>

struct posix_case {
	const char *function;
	const char *words;  /* of the standard: what is promised, or the errno and when */
	const char *script; /* words of ours */
};

/* In a new directory, /cN.  false: a line on stderr says which word was wrong, and how. */
must_check bool posix_case_holds(struct weka_client *client, const struct posix_case *c,
				 uint32_t number);

#endif

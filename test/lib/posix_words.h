/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Cases of the POSIX test: a script of words, carried out through the client library.
 *
 *	"file a text; link a b; holds b text; unlink no = ENOENT"
 *
 * as NAME  goes on as this user
 * does     file P [TEXT]   mkdir P   symlink TEXT P   link P P   rename P P   noreplace P P
 *          exchange P P   unlink P   rmdir P   write P TEXT (in place, at the start)   stat P
 *          load P
 * asserts  gone P   is P file|dir|symlink   same P P   differ P P   links P N   entries P N
 *          holds P TEXT   text P TEXT (of a symlink)
 * times    note P, then changed|unchanged P (ctime), modified|unmodified P (mtime)
 * handles  hold P, then alive or stale
 *          open P [FLAGS [MODE]] holds the file found; flags c create, x exclusive, t truncate,
 *          d directory, and opens it, until close; then on the held file: put AT TEXT
 *          append TEXT   cut SIZE   read AT, and asserts ends AT TEXT (behind which is the end)
 * attributes lstat P   chmod P MODE   chown P UID GID   utime P NS   readlink P [ROOM]   list P
 *          asserts mode P MODE   owner P UID GID   time P NS   size P N   lookin P COUNT [NAME]
 * extended attributes, of name N: set P N V   create P N V   replace P N V   remove P N
 *          get P N [ROOM]   names P [ROOM]; asserts has P N V   hasnt P N   lists P COUNT [N]
 *
 * A doing word ends well, or as "= ERRNO" says, and then weka_error() says so of the path.  A path
 * P is in the case's own directory; but '' is the empty one, and / the root.  In paths and texts @N
 * is a name of N bytes, and @long a path of more than PATH_MAX.  A value V is a text, '' (none), or
 * #N: N bytes of all sorts.
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

/* A user that "as NAME" chooses: the first one makes the directory, and begins. */
struct posix_user {
	const char *name;
	struct weka_client *client;
};

must_check bool posix_case_holds_as(const struct posix_user *users, uint32_t count,
				    const struct posix_case *c, uint32_t number);

/* In a new directory, /cN.  false: a line on stderr says which word was wrong, and how. */
must_check bool posix_case_holds(struct weka_client *client, const struct posix_case *c,
				 uint32_t number);

#endif

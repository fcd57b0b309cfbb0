/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#ifndef BASE_WORDS_H
#define BASE_WORDS_H

/*
 * Returns what `err`, an errno or its negative, means, in English.
 *
 * For a polling thread: strerror() frees and allocates memory when the process has a locale whose
 * messages are translated.
 */
const char *errno_words(int err);

#endif

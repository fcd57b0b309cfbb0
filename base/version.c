/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Version for tests.  A program is linked with a generated object of the same three names before
 * this archive, so that a new commit relinks programs and no test.
 */
#include "base/version.h"

const char version_text[] = "0";
const char version_commit[] = "unknown";
const char version_variant[] = "test";

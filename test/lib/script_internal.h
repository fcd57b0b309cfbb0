/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Between script_server.c and script_ops.c. */
#ifndef TEST_SCRIPT_INTERNAL_H
#define TEST_SCRIPT_INTERNAL_H

#include "base/assert.h"
#include "base/crc32c.h"
#include "base/num.h"
#include "test/lib/script_server.h"

#include <errno.h>

struct script_file *script__make(struct script *s, const char *name, uint32_t name_bytes);
struct script_file *script__find(struct script *s, const char *name, uint32_t name_bytes);

/* Answer a request, now or when its payload has come. */
void script__request(struct script *s, struct fab_req *req);
void script__pulled(struct script *s, struct fab_piece *piece);
void script__sent(struct fab_piece *piece);

#endif

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Between wire_model.c (states and answers) and wire_content.c (what files hold). */
#ifndef WIRE_MODEL_INTERNAL_H
#define WIRE_MODEL_INTERNAL_H

#include "test/sim/wire_model.h"

void wire__contents_begin(void);
void wire__contents_end(void);
/* `parent` with the change on top; 0 is what nothing was done to yet. */
uint32_t wire__content_with(uint32_t parent, const struct wire_op *op);
uint32_t wire__content_size(uint32_t content);
/* Are these its bytes at offset?  Asked once for each content and answer. */
bool wire__content_has(uint32_t content, const uint8_t *bytes, uint32_t offset, uint32_t size,
		       uint64_t answer);
void wire__content_describe(uint32_t content);
const char *wire__kind_name(enum wire_kind kind);

#endif

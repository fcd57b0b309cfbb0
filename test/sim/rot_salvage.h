/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Salvage of a store whose mount was refused, compared with the model. */
#ifndef TEST_ROT_SALVAGE_H
#define TEST_ROT_SALVAGE_H

#include "test/sim/rot_map.h"

enum rot_saved {
	ROT_LOST,  /* no name leads there, or its inode or bytes are gone */
	ROT_OLDER, /* brought back, and said to be in doubt               */
	ROT_SAVED, /* as it is in the model, and said to be proven        */
	ROT_OTHER, /* said to be proven, and is not so                    */
};

struct rot_salvage {
	struct meta_raw_loss loss;
	enum rot_saved item[ROT_ITEMS_MAX];
	uint32_t strangers; /* names that the model does not have, said to be proven */
};

void rot_salvage(struct meta_box *b, const struct rot_map *map, struct rot_salvage *out);

#endif

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "nvme/nvme_vfio.h"

#include <errno.h>

int nvme__vfio_open(struct nvme_drive **out, const struct nvme_name *parsed, const char *name,
		    struct nvme_dma *dma, const struct nvme_options *options, char *err_text,
		    size_t err_text_size)
{
	(void)out;
	(void)dma;
	(void)options;
	nvme__err_text(err_text, err_text_size, name, "%s: not built yet", parsed->path);
	return -ENOTSUP;
}

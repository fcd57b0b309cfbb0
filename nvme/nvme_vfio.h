/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Controllers of this machine, through /dev/vfio: nvme_vfio.c. */
#ifndef NVME_VFIO_H
#define NVME_VFIO_H

#include "nvme/nvme_internal.h"

must_check int nvme__vfio_open(struct nvme_drive **out, const struct nvme_name *parsed,
			       const char *name, struct nvme_dma *dma,
			       const struct nvme_options *options, char *err_text,
			       size_t err_text_size);

#endif

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Opens a drive by its name. */
#include "nvme/nvme_internal.h"
#include "nvme/soft/nvme_soft.h"

#include <errno.h>

static int make_back(struct nvme_soft_back **back, const struct nvme_name *parsed, const char *name,
		     const struct nvme_options *options, char *err_text, size_t err_text_size)
{
	switch (parsed->kind) {
	case NVME_NAME_MEM:
		return nvme__soft_mem_create(back, parsed, name, err_text, err_text_size);
	case NVME_NAME_FILE:
		return nvme__soft_file_create(back, parsed, name, options && options->create,
					      err_text, err_text_size);
	case NVME_NAME_PCI:
	case NVME_NAME_VFIO_USER:
		break;
	}
	UNREACHABLE();
}

int nvme__open_soft(struct nvme_drive **out, struct nvme_soft_back *back, const char *name,
		    struct nvme_dma *dma, const struct nvme_options *options, char *err_text,
		    size_t err_text_size)
{
	struct nvme_soft *soft;
	int err = nvme__soft_create(&soft, dma, back);

	if (err) {
		nvme__err_text(err_text, err_text_size, name, "out of memory");
		return err;
	}
	err = nvme__drive_up(out, &nvme__soft_ops, soft, name, dma, options, err_text,
			     err_text_size);
	if (!err && back->buffer_align > (*out)->info.buffer_align)
		(*out)->info.buffer_align = back->buffer_align;
	return err;
}

int nvme_open(struct nvme_drive **out, const char *name, struct nvme_dma *dma,
	      const struct nvme_options *options, char *err_text, size_t err_text_size)
{
	struct nvme_name parsed;
	struct nvme_soft_back *back;
	int err;

	err = nvme__name_parse(&parsed, name, err_text, err_text_size);
	if (err)
		return err;
	nvme__err_text(err_text, err_text_size, name, "out of memory"); /* unless it is replaced */
	if (parsed.kind == NVME_NAME_PCI || parsed.kind == NVME_NAME_VFIO_USER)
		return nvme__share_open(out, &parsed, name, dma, options, err_text, err_text_size);
	err = make_back(&back, &parsed, name, options, err_text, err_text_size);
	if (err)
		return err;
	err = nvme__open_soft(out, back, name, dma, options, err_text, err_text_size);
	if (!err)
		(*out)->watch.tick_ns = 0; /* the kernel below has timeouts of its own */
	return err;
}

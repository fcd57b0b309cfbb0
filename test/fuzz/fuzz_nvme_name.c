/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Names of drives, from people and configuration files. */
#include "nvme/nvme_internal.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const char *const kinds[] = { [NVME_NAME_FILE] = "file:",
				     [NVME_NAME_MEM] = "mem:",
				     [NVME_NAME_PCI] = "pci:",
				     [NVME_NAME_VFIO_USER] = "vfio-user:" };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	char *name = malloc(size + 1);
	char err_text[NVME_ERR_TEXT];
	struct nvme_name out;

	ASSERT(name);
	memcpy(name, bytes, size);
	name[size] = 0;
	memset(err_text, 0x7e, sizeof(err_text));
	if (nvme__name_parse(&out, name, err_text, sizeof(err_text)) == 0) {
		ASSERT(out.size_bytes % NVME_BLOCK_SIZE == 0);
		ASSERT(strnlen(out.path, sizeof(out.path)) < sizeof(out.path));
		ASSERT(strncmp(name, kinds[out.kind], strlen(kinds[out.kind])) == 0);
		ASSERT((out.path[0] != 0) == (out.kind != NVME_NAME_MEM));
		ASSERT((out.size_bytes > 0) >= (out.kind == NVME_NAME_MEM));
		ASSERT(out.nsid == nvme__name_nsid(name) && out.nsid != UINT32_MAX);
		if (out.kind == NVME_NAME_PCI)
			ASSERT(strlen(out.path) <= strlen("ffffffff:ff:1f.7"));
	} else {
		ASSERT(memchr(err_text, 0, sizeof(err_text)));
		for (const char *c = err_text; *c; c++)
			ASSERT((unsigned char)*c >= ' ' && *c != 127);
	}
	free(name);
	return 0;
}

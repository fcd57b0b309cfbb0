/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Identify of the soft controller: describes it and its namespaces by its traits. */
#include "nvme/soft/nvme_soft.h"

#include <string.h>

/* A page for the driver. */
union page {
	struct nvme_id_ctrl ctrl;
	struct nvme_id_ctrl_nvm nvm;
	struct nvme_id_ns ns;
	le32 list[NVME_PAGE_SIZE / sizeof(le32)];
	uint8_t bytes[NVME_PAGE_SIZE];
};

const struct nvme_soft_ns *nvme__soft_ns_search(const struct nvme_soft *soft, uint32_t nsid)
{
	const struct nvme_soft_ns *ns = soft->ns, *end = ns + soft->ns_count;

	while (ns < end && ns->nsid != nsid)
		ns++;
	return ns < end && ns->size_lbas > 0 ? ns : NULL;
}

static void pad_text(char *to, size_t size, const char *text)
{
	size_t len = strnlen(text, size);

	memset(to, ' ', size);
	memcpy(to, text, len);
}

static void identify_controller(const struct nvme_soft *soft, struct nvme_id_ctrl *id)
{
	const struct nvme_soft_traits *traits = &soft->back->traits;

	pad_text(id->serial, sizeof(id->serial), traits->serial);
	pad_text(id->model, sizeof(id->model), traits->model);
	pad_text(id->firmware, sizeof(id->firmware), "1");
	id->mdts = (uint8_t)traits->mdts;
	id->cntlid = le16_of(1);
	id->version = le32_of(traits->version ? traits->version : 0x00020000);
	id->oaes = le32_of(NVME_EVENT_WANT_NAMESPACES | NVME_EVENT_WANT_FIRMWARE);
	id->controller_type =
		traits->controller_type ? traits->controller_type : NVME_CONTROLLER_IO;
	id->oacs = le16_of(traits->shadow ? NVME_OACS_DOORBELL_BUFFER : 0);
	id->aerl = NVME_SOFT_EVENTS - 1;
	id->sqes = 0x66;
	id->cqes = 0x44;
	id->maxcmd = le16_of(NVME_SOFT_DEPTH_MAX - 1);
	id->namespace_count = le32_of(soft->ns[soft->ns_count - 1].nsid);
	id->oncs =
		le16_of((uint16_t)((traits->deallocate || traits->frees ? NVME_ONCS_DATASET : 0) |
				   (traits->no_zeroes ? 0 : NVME_ONCS_ZEROES)));
	id->volatile_write_cache = traits->volatile_cache;
	id->awupf = le16_of((uint16_t)(traits->atomic_lbas - 1));
	id->sgls = le32_of(traits->sgl);
	memcpy(id->subnqn, "nqn.2014-08.org.nvmexpress:uuid:weka-soft", 41);
}

static void identify_nvm(const struct nvme_soft *soft, struct nvme_id_ctrl_nvm *id)
{
	while (NVME_PAGE_SIZE << (id->wzsl + 1u) <= nvme__soft_zero_max_bytes(soft->back))
		id->wzsl++;
	id->dmrl = soft->back->traits.frees ? 1 : 255;
	id->dmrsl = le32_of(soft->back->traits.range_lbas_max);
}

static void identify_namespace(const struct nvme_soft *soft, const struct nvme_soft_ns *from,
			       struct nvme_id_ns *ns)
{
	ns->size_lbas = le64_of(from->size_lbas);
	ns->capacity_lbas = le64_of(from->size_lbas);
	ns->used_lbas = le64_of(from->size_lbas);
	ns->nsfeat = (uint8_t)((from->own_atomic ? NVME_NSFEAT_ATOMIC : 0) |
			       (soft->back->traits.thin ? NVME_NSFEAT_THIN : 0));
	ns->dps = from->protection;
	ns->nawupf = le16_of(from->nawupf);
	ns->nabspf = le16_of(from->nabspf);
	ns->nabo = le16_of(from->nabo);
	ns->nsattr = from->write_protected;
	memcpy(ns->id, from->id, sizeof(ns->id));
	ns->lbaf[0].lba_shift = (uint8_t)from->lba_shift;
	ns->lbaf[0].metadata_bytes = le16_of((uint16_t)from->metadata_bytes);
}

/* A UUID, which the driver does not use, and the command set. */
static void identify_descriptors(const struct nvme_soft_ns *from, uint8_t *bytes)
{
	bytes[0] = 3;
	bytes[1] = 16;
	memset(bytes + 4, 0x5a, 16);
	bytes[20] = NVME_DESCRIPTOR_COMMAND_SET;
	bytes[21] = 1;
	bytes[24] = from->command_set;
}

static void list_active(const struct nvme_soft *soft, uint32_t after, union page *page)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < soft->ns_count && count < ARRAY_LEN(page->list); i++) {
		if (soft->ns[i].nsid > after && soft->ns[i].size_lbas > 0)
			page->list[count++] = le32_of(soft->ns[i].nsid);
	}
}

static uint32_t fill(const struct nvme_soft *soft, const struct nvme_sqe *sqe, union page *page)
{
	uint32_t nsid = le32_get(sqe->nsid), cns = le32_get(sqe->cdw10) & 0xff;
	const struct nvme_soft_ns *ns = nvme__soft_ns(soft, nsid);

	switch (cns) {
	case NVME_CNS_CONTROLLER:
		identify_controller(soft, &page->ctrl);
		return NVME_SC_SUCCESS;
	case NVME_CNS_CONTROLLER_NVM:
		if (le32_get(sqe->cdw11) >> 24 != NVME_COMMAND_SET_NVM)
			return NVME_SC_INVALID_FIELD;
		identify_nvm(soft, &page->nvm);
		return NVME_SC_SUCCESS;
	case NVME_CNS_NAMESPACE:
	case NVME_CNS_DESCRIPTORS:
		if (!ns)
			return NVME_SC_INVALID_NAMESPACE;
		if (cns == NVME_CNS_NAMESPACE)
			identify_namespace(soft, ns, &page->ns);
		else
			identify_descriptors(ns, page->bytes);
		return NVME_SC_SUCCESS;
	case NVME_CNS_ACTIVE_LIST:
		if (nsid >= NVME_NSID_ALL - 1)
			return NVME_SC_INVALID_NAMESPACE;
		list_active(soft, nsid, page);
		return NVME_SC_SUCCESS;
	default:
		return NVME_SC_INVALID_FIELD;
	}
}

uint32_t nvme__soft_identify(struct nvme_soft *soft, const struct nvme_sqe *sqe)
{
	union page page;
	uint32_t status;

	if (le64_get(sqe->prp1) % NVME_PAGE_SIZE != 0)
		return NVME_SC_PRP_OFFSET;
	memset(&page, 0, sizeof(page));
	status = fill(soft, sqe, &page);
	return status ? status : nvme__soft_give(soft, sqe, &page, sizeof(page));
}

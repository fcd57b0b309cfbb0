/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Turns the identify data of a controller and a namespace into limits: pages of identify data in,
 * struct nvme_found out, no I/O.
 *
 * These bytes are foreign: whatever they are, the result is sound, or there is a line that says why
 * the drive cannot be used.
 */
#include "nvme/nvme_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PRP_BLOCKS_MAX 256u /* a PRP list takes at most half a page: 256 entries */

void nvme__copy_text(char *to, const char *from, size_t size)
{
	size_t len = size;

	while (len > 0 && (from[len - 1] == ' ' || from[len - 1] == 0))
		len--;
	for (size_t i = 0; i < len; i++)
		to[i] = from[i] >= ' ' && from[i] < 127 ? from[i] : '?';
	to[len] = 0;
}

static int refuse(char *text, size_t text_size, const char *why)
{
	(void)snprintf(text, text_size, "%s", why);
	return -ENOTSUP;
}

static uint32_t transfer_max_blocks(const struct nvme_id_ctrl *id, uint64_t cap, bool sgl)
{
	uint32_t most = sgl ? NVME_IO_BLOCKS_MAX : PRP_BLOCKS_MAX;
	uint32_t shift = id->mdts + NVME_CAP_MPSMIN(cap);

	return id->mdts > 0 && shift < 20 ? min_u32(1u << shift, most) : most;
}

int nvme__read_controller(struct nvme_found *found, const struct nvme_id_ctrl *id, uint64_t cap,
			  char *text, size_t text_size)
{
	struct nvme_info *info = &found->info;

	if (id->controller_type > NVME_CONTROLLER_IO)
		return refuse(text, text_size,
			      "a controller for discovery or administration, not for I/O");
	if ((id->sqes & 0xf) > 6 || id->sqes >> 4 < 6 || (id->cqes & 0xf) > 4 || id->cqes >> 4 < 4)
		return refuse(text, text_size, "its queue entries are not of 64 and 16 bytes");
	nvme__copy_text(info->model, id->model, sizeof(id->model));
	nvme__copy_text(info->serial, id->serial, sizeof(id->serial));
	nvme__copy_text(info->firmware, id->firmware, sizeof(id->firmware));
	found->sgl = (le32_get(id->sgls) & NVME_SGLS_MASK) == 1 ||
		     (le32_get(id->sgls) & NVME_SGLS_MASK) == 2;
	info->buffer_align = 4;
	info->transfer_max_bytes = transfer_max_blocks(id, cap, found->sgl) * NVME_BLOCK_SIZE;
	info->volatile_cache = id->volatile_write_cache & 1;
	found->oacs = le16_get(id->oacs);
	found->oncs = le16_get(id->oncs);
	found->oaes = le32_get(id->oaes);
	found->event_commands = id->aerl + 1u;
	found->awupf = le16_get(id->awupf);
	found->shutdown_ns = le32_get(id->shutdown_us) * 1000ull;
	found->warning_kelvin = le16_get(id->warning_kelvin);
	return 0;
}

void nvme__read_limits(struct nvme_found *found, const struct nvme_id_ctrl_nvm *id)
{
	uint64_t range = le32_get(id->dmrsl), sum = le64_get(id->dmsl);

	if (id->wzsl > 0 && id->wzsl < 20)
		found->zero_max_bytes = NVME_PAGE_SIZE << id->wzsl;
	/* We send one range a command: both limits are its own. */
	found->free_max_lbas = range && sum ? min_u64(range, sum) : range | sum;
}

int nvme__read_descriptors(const uint8_t *page, char *text, size_t text_size)
{
	const size_t head = sizeof(struct nvme_id_descriptor);

	for (size_t at = 0; at + head < NVME_PAGE_SIZE && page[at] != 0;
	     at += head + page[at + 1]) {
		if (page[at] != NVME_DESCRIPTOR_COMMAND_SET ||
		    page[at + head] == NVME_COMMAND_SET_NVM)
			continue;
		if (page[at + head] == NVME_COMMAND_SET_ZONED)
			return refuse(text, text_size, "the namespace is zoned: not supported");
		if (page[at + head] == NVME_COMMAND_SET_KEY_VALUE)
			return refuse(text, text_size,
				      "the namespace holds keys and values, no blocks");
		return refuse(text, text_size,
			      "the namespace has a command set that is unknown here");
	}
	return 0;
}

/*
 * Returns the largest power of two up to which an aligned write is never torn: at most what one
 * command carries, and not across a boundary that the namespace has for that.
 */
static uint32_t atomic_bytes(const struct nvme_found *found, const struct nvme_id_ns *ns)
{
	bool own = ns->nsfeat & NVME_NSFEAT_ATOMIC;
	uint64_t lbas = (own ? le16_get(ns->nawupf) : found->awupf) + 1ull;
	uint64_t boundary = own && le16_get(ns->nabspf) ? le16_get(ns->nabspf) + 1ull : 0;
	uint64_t offset = boundary ? le16_get(ns->nabo) : 0;
	uint64_t most = min_u64(lbas << found->lba_shift, found->info.transfer_max_bytes);
	uint64_t unit = 1ull << found->lba_shift;

	while (2 * unit <= most && (boundary << found->lba_shift) % (2 * unit) == 0 &&
	       (offset << found->lba_shift) % (2 * unit) == 0)
		unit *= 2;
	return (uint32_t)unit;
}

static int read_format(struct nvme_found *found, const struct nvme_id_ns *ns, char *text,
		       size_t text_size)
{
	uint32_t format = (ns->flbas & 0xfu) | (ns->flbas >> 1 & 0x30u);
	uint32_t shift = ns->lbaf[format].lba_shift;
	uint32_t metadata_bytes = le16_get(ns->lbaf[format].metadata_bytes);

	if (metadata_bytes != 0 || ns->dps & 7) {
		(void)snprintf(
			text, text_size,
			"the namespace's format has %u bytes of metadata a block%s: format it "
			"without (nvme format)",
			metadata_bytes, ns->dps & 7 ? " and protection information" : "");
		return -ENOTSUP;
	}
	if (shift < 9 || shift > NVME_BLOCK_SHIFT) {
		(void)snprintf(text, text_size,
			       "the namespace's format has blocks of 2^%u bytes, not 512 to 4096",
			       shift);
		return -ENOTSUP;
	}
	found->lba_shift = shift;
	return 0;
}

static void set_ranges(struct nvme_found *found)
{
	struct nvme_info *info = &found->info;
	uint32_t shift = NVME_BLOCK_SHIFT - found->lba_shift;
	uint64_t zero = 65536ull >> shift; /* a command's 16 bits */
	uint64_t free = NVME_RANGE_BLOCKS_MAX;

	if (found->zero_max_bytes)
		zero = min_u64(zero, found->zero_max_bytes / NVME_BLOCK_SIZE);
	if (found->free_max_lbas)
		free = min_u64(free, found->free_max_lbas >> shift);
	info->zero_max_blocks = found->oncs & NVME_ONCS_ZEROES ? (uint32_t)zero : 0;
	info->deallocate_max_blocks = found->oncs & NVME_ONCS_DATASET ? (uint32_t)free : 0;
}

int nvme__read_namespace(struct nvme_found *found, const struct nvme_id_ns *ns, char *text,
			 size_t text_size)
{
	struct nvme_info *info = &found->info;
	int err = read_format(found, ns, text, text_size);

	if (err)
		return err;
	if (ns->nsattr & 1) {
		(void)snprintf(text, text_size, "the namespace is write protected");
		return -EROFS;
	}
	found->size_lbas = le64_get(ns->size_lbas);
	/* A partial block at the end is not used. */
	info->nblocks = found->size_lbas >> (NVME_BLOCK_SHIFT - found->lba_shift);
	if (info->nblocks == 0 || info->nblocks >> 52)
		return refuse(text, text_size, "the namespace has no sensible size");
	info->nsid = found->nsid;
	info->thin = ns->nsfeat & NVME_NSFEAT_THIN;
	memcpy(found->ns_id, ns->id, sizeof(ns->id));
	info->lba_bytes = 1u << found->lba_shift;
	info->atomic_bytes = atomic_bytes(found, ns);
	set_ranges(found);
	return 0;
}

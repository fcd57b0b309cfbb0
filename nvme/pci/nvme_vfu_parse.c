/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Parses a vfio-user server's messages.  The bytes are copied before they are parsed, since a body
 * has no alignment; results are in bounds and consistent.
 *
 *   region info | argsz flags index cap_offset size fd_offset | cap | areas ... | cap | ...
 *               0                                             cap_offset        next
 */
#include "nvme/pci/nvme_vfu.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#define CAPS_MAX 8u /* of a region: a chain that is longer goes in a circle */

/* Copies the next `size` bytes out, or says that they are not there. */
static bool take(const uint8_t *body, uint32_t body_bytes, uint64_t at, void *to, size_t size)
{
	if (at > body_bytes || size > body_bytes - at)
		return false;
	memcpy(to, body + at, size);
	return true;
}

const char *nvme__vfu_parse_head(const uint8_t bytes[sizeof(struct vfu_header)],
				 struct nvme_vfu_head *out)
{
	struct vfu_header h;
	uint32_t size, flags, error;

	memcpy(&h, bytes, sizeof(h));
	size = le32_get(h.size);
	flags = le32_get(h.flags);
	error = le32_get(h.error);
	if ((flags & VFU_TYPE_MASK) > VFU_TYPE_REPLY)
		return "it does not speak vfio-user";
	if (size < sizeof(h) || size - sizeof(h) > NVME_VFU_BODY_MAX)
		return "it does not speak vfio-user, or sends more than was asked for";
	out->id = le16_get(h.id);
	out->command = le16_get(h.command);
	out->reply = (flags & VFU_TYPE_MASK) == VFU_TYPE_REPLY;
	out->no_reply = flags & VFU_NO_REPLY;
	out->err = 0;
	if (out->reply && flags & VFU_ERROR)
		out->err = error > 0 && error < 4096 ? -(int)error : -EIO;
	out->body_bytes = size - (uint32_t)sizeof(h);
	return NULL;
}

/* A whole number above 0; false when it is something else.  Missing: *out stays. */
static bool number(const json_t *caps, const char *name, uint64_t max, uint64_t *out)
{
	const json_t *v = json_object_get(caps, name);

	if (!v)
		return true;
	if (!json_is_integer(v) || json_integer_value(v) <= 0)
		return false;
	*out = min_u64((uint64_t)json_integer_value(v), max);
	return true;
}

static const char *parse_caps(const json_t *root, struct nvme_vfu_caps *out)
{
	const json_t *caps = json_object_get(root, "capabilities");
	uint64_t fds = VFU_DEFAULT_MSG_FDS;

	if (!json_is_object(root) || (caps && !json_is_object(caps)))
		return "its capabilities are no JSON object";
	if (!number(caps, "max_msg_fds", UINT32_MAX, &fds) ||
	    !number(caps, "max_data_xfer_size", UINT32_MAX, &out->xfer_max) ||
	    !number(caps, "max_dma_maps", UINT32_MAX, &out->dma_maps_max))
		return "one of its capabilities is no number above 0";
	out->msg_fds_max = (uint32_t)fds;
	return NULL;
}

const char *nvme__vfu_parse_version(const uint8_t *body, uint32_t body_bytes,
				    struct nvme_vfu_caps *out)
{
	struct vfu_version v;
	const char *wrong;
	json_t *root;

	*out = (struct nvme_vfu_caps){ .msg_fds_max = VFU_DEFAULT_MSG_FDS,
				       .xfer_max = VFU_DEFAULT_XFER_MAX,
				       .dma_maps_max = VFU_DEFAULT_DMA_MAPS };
	if (!take(body, body_bytes, 0, &v, sizeof(v)))
		return "its version is too short";
	if (le16_get(v.major) != VFU_MAJOR || le16_get(v.minor) > VFU_MINOR)
		return "it speaks another version of vfio-user";
	out->minor = le16_get(v.minor);
	body += sizeof(v);
	body_bytes -= (uint32_t)sizeof(v);
	if (body_bytes == 0)
		return NULL;
	if (body[body_bytes - 1] != 0)
		return "its capabilities do not end";
	root = json_loadb((const char *)body, body_bytes - 1, JSON_REJECT_DUPLICATES, NULL);
	if (!root)
		return "its capabilities are no JSON";
	wrong = parse_caps(root, out);
	json_decref(root);
	return wrong;
}

const char *nvme__vfu_parse_device(const uint8_t *body, uint32_t body_bytes,
				   struct nvme_vfu_device *out)
{
	struct vfu_device_info info;

	if (!take(body, body_bytes, 0, &info, sizeof(info)))
		return "its device info is too short";
	if (!(le32_get(info.flags) & VFU_DEVICE_PCI))
		return "it serves no PCI device";
	out->resets = le32_get(info.flags) & VFU_DEVICE_RESETS;
	out->region_count = le32_get(info.region_count);
	out->irq_count = le32_get(info.irq_count);
	if (out->region_count <= VFU_REGION_CONFIG)
		return "its PCI device has no configuration space";
	return NULL;
}

/* Takes only whole pages; accesses to partial pages use messages. */
static const char *add_area(struct nvme_vfu_region *out, uint64_t offset, uint64_t size_bytes)
{
	uint64_t end;

	if (add_overflows(offset, size_bytes, &end) || end > out->size_bytes)
		return "an area to map lies outside its region";
	if (size_bytes == 0 || (offset | size_bytes) % NVME_PAGE_SIZE != 0)
		return NULL;
	if (add_overflows(out->fd_offset, end, &end) || end > INT64_MAX)
		return "an area to map lies outside any file";
	if (out->area_count == NVME_VFU_AREAS_MAX)
		return "a region has too many areas to map";
	out->area[out->area_count++] = (struct nvme_vfu_area){ offset, size_bytes };
	return NULL;
}

static const char *parse_sparse(const uint8_t *body, uint32_t body_bytes, uint64_t at,
				struct nvme_vfu_region *out)
{
	struct vfu_cap_sparse sparse;
	struct vfu_area area;
	const char *wrong = NULL;

	if (!take(body, body_bytes, at, &sparse, sizeof(sparse)))
		return "a region's areas are cut off";
	if (le32_get(sparse.area_count) > body_bytes / sizeof(area))
		return "a region has more areas than it names";
	for (uint32_t i = 0; i < le32_get(sparse.area_count) && !wrong; i++) {
		if (!take(body, body_bytes, at + sizeof(sparse) + i * sizeof(area), &area,
			  sizeof(area)))
			return "a region's areas are cut off";
		wrong = add_area(out, le64_get(area.offset), le64_get(area.size));
	}
	return wrong;
}

/* Walks the chain; *sparse: there was a list of areas, be it empty. */
static const char *parse_region_caps(const uint8_t *body, uint32_t body_bytes, uint32_t at,
				     struct nvme_vfu_region *out, bool *sparse)
{
	struct vfu_cap cap;
	const char *wrong = NULL;

	for (uint32_t i = 0; at != 0 && !wrong; i++) {
		if (i == CAPS_MAX)
			return "a region's capabilities do not end";
		if (at < sizeof(struct vfu_region_info) ||
		    !take(body, body_bytes, at, &cap, sizeof(cap)))
			return "a region's capabilities lie outside the reply";
		if (le16_get(cap.id) == VFU_CAP_SPARSE_MMAP && !*sparse) {
			*sparse = true;
			wrong = parse_sparse(body, body_bytes, at, out);
		}
		at = le32_get(cap.next);
	}
	return wrong;
}

const char *nvme__vfu_parse_region(const uint8_t *body, uint32_t body_bytes, uint32_t index,
				   struct nvme_vfu_region *out)
{
	struct vfu_region_info info;
	const char *wrong = NULL;
	bool sparse = false;
	uint32_t flags;

	*out = (struct nvme_vfu_region){ 0 };
	if (!take(body, body_bytes, 0, &info, sizeof(info)))
		return "its region info is too short";
	if (le32_get(info.index) != index)
		return "it tells of another region than it was asked about";
	if (le32_get(info.argsz) > NVME_VFU_BODY_MAX)
		return "a region has too many areas to map";
	flags = le32_get(info.flags);
	out->readable = flags & VFU_REGION_READABLE;
	out->writable = flags & VFU_REGION_WRITABLE;
	out->size_bytes = le64_get(info.size);
	out->fd_offset = le64_get(info.fd_offset);
	if (!(flags & VFU_REGION_MMAP))
		return NULL;
	if (flags & VFU_REGION_CAPS)
		wrong = parse_region_caps(body, body_bytes, le32_get(info.cap_offset), out,
					  &sparse);
	if (wrong || sparse)
		return wrong;
	return add_area(out, 0, align_down(out->size_bytes, NVME_PAGE_SIZE)); /* all of it */
}

const char *nvme__vfu_parse_irq(const uint8_t *body, uint32_t body_bytes, uint32_t index,
				uint32_t *count)
{
	struct vfu_irq_info info;

	if (!take(body, body_bytes, 0, &info, sizeof(info)))
		return "its interrupt info is too short";
	if (le32_get(info.index) != index)
		return "it tells of another interrupt than it was asked about";
	*count = le32_get(info.flags) & VFU_IRQ_HAS_EVENTFD ? le32_get(info.count) : 0;
	return NULL;
}

const char *nvme__vfu_parse_rw(const uint8_t *body, uint32_t body_bytes,
			       const struct vfu_region_rw *asked, const uint8_t **data)
{
	struct vfu_region_rw rw;

	if (!take(body, body_bytes, 0, &rw, sizeof(rw)))
		return "its answer to a register access is too short";
	if (memcmp(&rw, asked, sizeof(rw)) != 0)
		return "it answers another register access than the one asked for";
	if (!data)
		return NULL;
	if (body_bytes - sizeof(rw) != le32_get(rw.count))
		return "a register's value is cut off";
	*data = body + sizeof(rw);
	return NULL;
}

const char *nvme__vfu_parse_dma(const uint8_t *body, uint32_t body_bytes, bool write,
				struct nvme_vfu_dma_request *out)
{
	struct vfu_dma_rw rw;
	uint64_t end;

	if (!take(body, body_bytes, 0, &rw, sizeof(rw)))
		return "its access to our memory is too short";
	if (le64_get(rw.count) > NVME_VFU_XFER_MAX ||
	    add_overflows(le64_get(rw.iova), le64_get(rw.count), &end))
		return "its access to our memory is too long";
	out->write = write;
	out->iova = le64_get(rw.iova);
	out->count = (uint32_t)le64_get(rw.count);
	out->data = body + sizeof(rw);
	if (write && body_bytes - sizeof(rw) != out->count)
		return "its write to our memory is cut off";
	return NULL;
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The server's side of vfio-user's messages. */
#define _GNU_SOURCE
#include "test/lib/vfu_server.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BODY_MAX       8192u
#define FDS_MAX        8u
#define CLIENT_WAIT_MS 5000

/* A message of the client's, and the answer to it. */
struct exchange {
	struct vfu_header head;
	_Alignas(8) uint8_t body[BODY_MAX];
	uint32_t body_bytes;
	int fd[FDS_MAX];
	uint32_t fd_count;
	_Alignas(8) uint8_t answer[BODY_MAX];
	uint32_t answer_bytes;
	int answer_fd; /* -1: none */
};

static bool wait_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, CLIENT_WAIT_MS) == 1;
}

static void keep_fds(struct exchange *x, struct msghdr *msg)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		for (size_t i = 0; c->cmsg_type == SCM_RIGHTS && i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			if (x->fd_count < FDS_MAX)
				x->fd[x->fd_count++] = fd;
			else
				close(fd);
		}
	}
}

static bool read_all(int from, void *to, size_t size, struct exchange *x)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(FDS_MAX * sizeof(int))];
	size_t at = 0;

	while (at < size) {
		struct iovec iov = { (char *)to + at, size - at };
		struct msghdr msg = { .msg_iov = &iov,
				      .msg_iovlen = 1,
				      .msg_control = control,
				      .msg_controllen = sizeof(control) };
		ssize_t n;

		if (!wait_readable(from))
			return false;
		n = recvmsg(from, &msg, MSG_CMSG_CLOEXEC);
		if (n <= 0)
			return false;
		keep_fds(x, &msg);
		at += (size_t)n;
	}
	return true;
}

static bool read_message(struct vfu_server *s, struct exchange *x)
{
	uint32_t size;

	x->fd_count = 0;
	x->answer_bytes = 0;
	x->answer_fd = -1;
	if (!read_all(s->fd, &x->head, sizeof(x->head), x))
		return false;
	size = le32_get(x->head.size);
	if (size < sizeof(x->head) || size - sizeof(x->head) > BODY_MAX)
		return false;
	x->body_bytes = size - (uint32_t)sizeof(x->head);
	return read_all(s->fd, x->body, x->body_bytes, x);
}

static bool send_message(struct vfu_server *s, const struct vfu_header *head, const void *body,
			 uint32_t body_bytes, int fd)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov[2] = { { (void *)head, sizeof(*head) }, { (void *)body, body_bytes } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

	if (fd >= 0) {
		struct cmsghdr *c;

		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(fd));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	return sendmsg(s->fd, &msg, MSG_NOSIGNAL) == (ssize_t)(sizeof(*head) + body_bytes);
}

static bool reply(struct vfu_server *s, struct exchange *x, int err)
{
	uint32_t body_bytes = err ? 0 : x->answer_bytes;
	struct vfu_header head = {
		.id = x->head.id,
		.command = x->head.command,
		.size = le32_of((uint32_t)sizeof(head) + body_bytes),
		.flags = le32_of(VFU_TYPE_REPLY | (err ? VFU_ERROR : 0)),
		.error = le32_of((uint32_t)-err),
	};

	if (le32_get(x->head.flags) & VFU_NO_REPLY)
		return true;
	return send_message(s, &head, x->answer, body_bytes, err ? -1 : x->answer_fd);
}

static void answer(struct exchange *x, const void *bytes, uint32_t size)
{
	ASSERT(x->answer_bytes + size <= BODY_MAX);
	memcpy(x->answer + x->answer_bytes, bytes, size);
	x->answer_bytes += size;
}

/* ---- one function a command: 0, or -errno ------------------------------------------------- */

static int do_version(struct vfu_server *s, struct exchange *x)
{
	const struct vfu_version *asked = (const void *)x->body;
	struct vfu_version version = { le16_of(VFU_MAJOR), le16_of(VFU_MINOR) };
	char json[160];

	if (x->body_bytes < sizeof(version) || le16_get(asked->major) != VFU_MAJOR)
		return -EINVAL;
	snprintf(json, sizeof(json),
		 "{\"capabilities\":{\"max_msg_fds\":%u,\"max_data_xfer_size\":4096,"
		 "\"max_dma_maps\":%u,\"pgsizes\":4096}}",
		 FDS_MAX, vfu_server_maps_max(s));
	answer(x, &version, sizeof(version));
	answer(x, json, (uint32_t)strlen(json) + 1);
	return 0;
}

static int do_dma_map(struct vfu_server *s, struct exchange *x)
{
	const struct vfu_dma_map *m = (const void *)x->body;

	if (x->body_bytes != sizeof(*m) || le32_get(m->argsz) != sizeof(*m) || x->fd_count != 1)
		return -EINVAL;
	return vfu_server_map(s, le64_get(m->iova), le64_get(m->size), x->fd[0],
			      le64_get(m->fd_offset));
}

static int do_dma_unmap(struct vfu_server *s, struct exchange *x)
{
	const struct vfu_dma_unmap *m = (const void *)x->body;

	if (x->body_bytes != sizeof(*m))
		return -EINVAL;
	answer(x, m, sizeof(*m));
	return vfu_server_unmap(s, le64_get(m->iova), le64_get(m->size));
}

static int do_device_info(struct vfu_server *s, struct exchange *x)
{
	struct vfu_device_info info = {
		.argsz = le32_of(sizeof(info)),
		.flags = le32_of(VFU_DEVICE_PCI | (s->options.no_reset ? 0 : VFU_DEVICE_RESETS)),
		.region_count = le32_of(VFU_REGION_COUNT),
		.irq_count = le32_of(VFU_IRQ_COUNT),
	};

	answer(x, &info, sizeof(info));
	return 0;
}

static int do_region_info(struct vfu_server *s, struct exchange *x)
{
	const struct vfu_region_info *asked = (const void *)x->body;
	struct vfu_cap_sparse sparse = { .cap = { le16_of(VFU_CAP_SPARSE_MMAP), le16_of(1),
						  le32_of(0) },
					 .area_count = le32_of(1) };
	struct vfu_area area = { le64_of(NVME_REG_DOORBELLS),
				 le64_of(s->bar_bytes - NVME_REG_DOORBELLS) };
	struct vfu_region_info info = { .argsz = le32_of(sizeof(info)) };
	bool mapped;

	if (x->body_bytes != sizeof(*asked) || le32_get(asked->index) >= VFU_REGION_COUNT)
		return -EINVAL;
	info.index = asked->index;
	mapped = le32_get(info.index) == VFU_REGION_BAR0 && !s->options.no_mmap;
	if (le32_get(info.index) == VFU_REGION_BAR0)
		info.size = le64_of(s->bar_bytes);
	else if (le32_get(info.index) == VFU_REGION_CONFIG)
		info.size = le64_of(sizeof(s->config));
	if (le64_get(info.size) > 0)
		info.flags = le32_of(VFU_REGION_READABLE | VFU_REGION_WRITABLE);
	if (mapped) {
		info.flags = le32_of(le32_get(info.flags) | VFU_REGION_MMAP | VFU_REGION_CAPS);
		info.argsz = le32_of(sizeof(info) + sizeof(sparse) + sizeof(area));
		info.cap_offset = le32_of(sizeof(info));
		x->answer_fd = s->bar_fd;
	}
	answer(x, &info, sizeof(info));
	if (mapped && le32_get(asked->argsz) >= le32_get(info.argsz)) {
		answer(x, &sparse, sizeof(sparse));
		answer(x, &area, sizeof(area));
	}
	return 0;
}

static int do_irq_info(struct vfu_server *s, struct exchange *x)
{
	const struct vfu_irq_info *asked = (const void *)x->body;
	struct vfu_irq_info info = { .argsz = le32_of(sizeof(info)) };

	if (x->body_bytes != sizeof(*asked) || le32_get(asked->index) >= VFU_IRQ_COUNT)
		return -EINVAL;
	info.index = asked->index;
	if (le32_get(info.index) == VFU_IRQ_MSIX && !s->options.no_irqs) {
		info.flags = le32_of(VFU_IRQ_HAS_EVENTFD);
		info.count = le32_of(VFU_SERVER_VECTORS);
	}
	answer(x, &info, sizeof(info));
	return 0;
}

static int do_set_irqs(struct vfu_server *s, struct exchange *x)
{
	const struct vfu_irq_set *set = (const void *)x->body;
	uint32_t start, count;

	if (x->body_bytes < sizeof(*set) || le32_get(set->index) != VFU_IRQ_MSIX)
		return -EINVAL;
	start = le32_get(set->start);
	count = le32_get(set->count);
	if (start >= VFU_SERVER_VECTORS || count > VFU_SERVER_VECTORS - start ||
	    (x->fd_count && x->fd_count != count))
		return -EINVAL;
	for (uint32_t i = 0; i < count; i++) {
		if (s->irq_fd[start + i] >= 0)
			close(s->irq_fd[start + i]);
		s->irq_fd[start + i] = x->fd_count ? x->fd[i] : -1;
	}
	x->fd_count = 0; /* they are kept */
	return 0;
}

static void read_bar(struct vfu_server *s, uint64_t offset, void *to, uint32_t count)
{
	const struct nvme_ctrl_ops *ops = &nvme__soft_ops;
	uint64_t value;

	if (offset >= NVME_REG_DOORBELLS)
		memcpy(&value, s->bar + offset, count);
	else
		value = count == 8 ? ops->read64(s->soft, (uint32_t)offset)
				   : ops->read32(s->soft, (uint32_t)offset);
	memcpy(to, &value, count);
}

static void write_bar(struct vfu_server *s, uint64_t offset, const void *from, uint32_t count)
{
	const struct nvme_ctrl_ops *ops = &nvme__soft_ops;
	uint64_t value = 0;

	memcpy(&value, from, count);
	if (offset >= NVME_REG_DOORBELLS)
		*(volatile uint32_t *)(void *)(s->bar + offset) = (uint32_t)value;
	else if (count == 8)
		ops->write64(s->soft, (uint32_t)offset, value);
	else
		ops->write32(s->soft, (uint32_t)offset, (uint32_t)value);
}

static int do_access(struct vfu_server *s, struct exchange *x, bool write)
{
	const struct vfu_region_rw *rw = (const void *)x->body;
	uint32_t region = le32_get(rw->region), count = le32_get(rw->count);
	uint64_t offset = le64_get(rw->offset);
	uint64_t size = region == VFU_REGION_BAR0 ? s->bar_bytes : sizeof(s->config);
	uint8_t *data = x->body + sizeof(*rw);

	if (x->body_bytes != sizeof(*rw) + (write ? count : 0) ||
	    (region != VFU_REGION_BAR0 && region != VFU_REGION_CONFIG))
		return -EINVAL;
	if (count > 8 || offset > size || count > size - offset)
		return -EINVAL;
	if (region == VFU_REGION_BAR0 && (count < 4 || offset % count != 0))
		return -EINVAL;
	answer(x, rw, sizeof(*rw));
	if (region == VFU_REGION_CONFIG && write)
		memcpy(s->config + offset, data, count);
	else if (region == VFU_REGION_CONFIG)
		answer(x, s->config + offset, count);
	else if (write)
		write_bar(s, offset, data, count);
	if (region == VFU_REGION_BAR0 && !write) {
		read_bar(s, offset, x->answer + x->answer_bytes, count);
		x->answer_bytes += count;
	}
	return 0;
}

static int dispatch(struct vfu_server *s, struct exchange *x)
{
	switch (le16_get(x->head.command)) {
	case VFU_VERSION:
		return do_version(s, x);
	case VFU_DMA_MAP:
		return do_dma_map(s, x);
	case VFU_DMA_UNMAP:
		return do_dma_unmap(s, x);
	case VFU_DEVICE_GET_INFO:
		return do_device_info(s, x);
	case VFU_GET_REGION_INFO:
		return do_region_info(s, x);
	case VFU_GET_IRQ_INFO:
		return do_irq_info(s, x);
	case VFU_SET_IRQS:
		return do_set_irqs(s, x);
	case VFU_REGION_READ:
		return do_access(s, x, false);
	case VFU_REGION_WRITE:
		return do_access(s, x, true);
	case VFU_DEVICE_RESET:
		if (s->options.no_reset)
			return -EOPNOTSUPP;
		vfu_server_reset(s);
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

static void close_fds(struct exchange *x)
{
	for (uint32_t i = 0; i < x->fd_count; i++)
		close(x->fd[i]);
	x->fd_count = 0;
}

/* ---- the other way round -------------------------------------------------------------------- */

/* Requests that came while we waited for the client's reply: they are answered after it. */
static struct exchange deferred[4];
static uint32_t deferred_count;

static bool read_reply(struct vfu_server *s, struct exchange *x)
{
	while (read_message(s, x)) {
		if ((le32_get(x->head.flags) & VFU_TYPE_MASK) == VFU_TYPE_REPLY) {
			close_fds(x);
			return true;
		}
		if (deferred_count == ARRAY_LEN(deferred))
			return false;
		deferred[deferred_count++] = *x;
	}
	return false;
}

static bool serve_deferred(struct vfu_server *s)
{
	bool fine = true;

	for (uint32_t i = 0; i < deferred_count; i++) {
		fine &= reply(s, &deferred[i], dispatch(s, &deferred[i]));
		close_fds(&deferred[i]);
	}
	deferred_count = 0;
	return fine;
}

/* Ask, and have the reply in *x. */
static bool ask(struct vfu_server *s, struct exchange *x, uint16_t command, const void *body,
		uint32_t body_bytes)
{
	struct vfu_header head = { .id = le16_of(0x5a5a),
				   .command = le16_of(command),
				   .size = le32_of((uint32_t)sizeof(head) + body_bytes),
				   .flags = le32_of(VFU_TYPE_COMMAND) };

	if (!send_message(s, &head, body, body_bytes, -1) || !read_reply(s, x))
		return false;
	return le16_get(x->head.id) == 0x5a5a && le16_get(x->head.command) == command &&
	       le32_get(x->head.flags) == VFU_TYPE_REPLY;
}

static bool ask_memory(struct vfu_server *s, uint64_t iova, uint32_t size_bytes)
{
	struct {
		struct vfu_dma_rw rw;
		uint8_t data[4096];
	} write = { .rw = { le64_of(iova), le64_of(size_bytes) } };
	uint64_t here = size_bytes;
	const void *mapped = nvme__dma_at(s->dma, iova, &here);
	struct exchange x;

	ASSERT(size_bytes <= sizeof(write.data));
	if (!mapped || here != size_bytes)
		return false;
	if (!ask(s, &x, VFU_DMA_READ, &write.rw, sizeof(write.rw)) ||
	    x.body_bytes != sizeof(write.rw) + size_bytes ||
	    memcmp(x.body + sizeof(write.rw), mapped, size_bytes) != 0)
		return false;
	memcpy(write.data, mapped, size_bytes);
	if (!ask(s, &x, VFU_DMA_WRITE, &write, (uint32_t)sizeof(write.rw) + size_bytes))
		return false;
	/* And where nothing is mapped it is refused, not obeyed. */
	write.rw.iova = le64_of(4096);
	return !ask(s, &x, VFU_DMA_READ, &write.rw, sizeof(write.rw)) &&
	       le32_get(x.head.flags) == (VFU_TYPE_REPLY | VFU_ERROR);
}

/* Once, while the client waits for the answer to its enabling. */
static void ask_once(struct vfu_server *s)
{
	if (!s->options.ask_memory || s->asked_memory || !(s->soft->csts & NVME_CSTS_RDY))
		return;
	s->asked_memory = true;
	if (!ask_memory(s, s->soft->asq, 4096)) {
		fprintf(stderr, "vfu_server: the client's memory cannot be had by messages\n");
		_exit(3);
	}
}

bool vfu_server_message(struct vfu_server *s)
{
	struct exchange x;
	bool fine = read_message(s, &x);
	int err;

	s->message_count++;
	if (fine && (!s->options.mute_after || s->message_count <= s->options.mute_after)) {
		err = dispatch(s, &x);
		ask_once(s);
		fine = reply(s, &x, err) && serve_deferred(s);
	}
	close_fds(&x);
	return fine;
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Names of drives.
 *
 *   file:PATH[?size=SIZE]   PATH ends at the last '?': "file:a?b?size=1G" is the file "a?b"
 *   mem:SIZE[?copy=HOW]     SIZE: digits, then nothing, K, M, G or T (powers of 1024); a
 *                           multiple of 4096
 *   pci:DOMAIN:BUS:DEV.FN[?nsid=N]     hexadecimal, as lspci -D writes it; N from 1 on
 *   vfio-user:PATH[?nsid=N]            PATH of a socket, as for file:
 *
 * Names come from people and configuration files: this is the only place that parses them, and each
 * refusal says what to type instead.
 */
#include "nvme/nvme_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SIZE_MAX_BYTES (1ull << 50) /* 1 PiB: beyond it is a typing error */

void nvme__err_text(char *err_text, size_t err_text_size, const char *name, const char *format, ...)
{
	va_list args;
	int at;

	if (err_text_size == 0)
		return;
	at = snprintf(err_text, err_text_size, "%.128s%s: ", name,
		      strnlen(name, 129) > 128 ? "..." : "");
	ASSERT(at >= 0);
	if ((size_t)at < err_text_size) {
		va_start(args, format);
		(void)vsnprintf(err_text + at, err_text_size - (size_t)at, format, args);
		va_end(args);
	}
	for (char *c = err_text; *c; c++) {
		if ((unsigned char)*c < ' ' || *c == 127)
			*c = '?';
	}
}

/* Returns the bits that a suffix shifts by, or -1. */
static int suffix_shift(char c)
{
	switch (c) {
	case 'K':
	case 'k':
		return 10;
	case 'M':
	case 'm':
		return 20;
	case 'G':
	case 'g':
		return 30;
	case 'T':
	case 't':
		return 40;
	default:
		return -1;
	}
}

/* Returns NULL, or why `text` is not a size. */
static const char *parse_size(const char *text, uint64_t *size_bytes)
{
	uint64_t v = 0;
	int shift = 0;

	if (*text < '0' || *text > '9')
		return "a size is a number and K, M, G or T, such as 8G";
	for (; *text >= '0' && *text <= '9'; text++) {
		v = v * 10 + (uint64_t)(*text - '0');
		if (v > SIZE_MAX_BYTES)
			return "the size is larger than 1024T";
	}
	if (*text) {
		shift = suffix_shift(*text++);
		if (shift < 0 || *text)
			return "a size is a number and K, M, G or T, such as 8G";
	}
	if (v > SIZE_MAX_BYTES >> shift)
		return "the size is larger than 1024T";
	v <<= shift;
	if (v == 0 || v % NVME_BLOCK_SIZE != 0)
		return "the size is not a multiple of 4K";
	*size_bytes = v;
	return NULL;
}

static const char *parse_mem(struct nvme_name *out, const char *rest)
{
	const char *query = strchr(rest, '?');
	size_t size = query ? (size_t)(query - rest) : strlen(rest);
	char text[32];

	out->copy = NVME_COPY_AS_CARDS;
	if (query && strcmp(query, "?copy=off") == 0)
		out->copy = NVME_COPY_OFF;
	else if (query && strcmp(query, "?copy=past") == 0)
		out->copy = NVME_COPY_PAST;
	else if (query && strcmp(query, "?copy=through") == 0)
		out->copy = NVME_COPY_THROUGH;
	else if (query)
		return "after '?' only copy= is known: off, past, through (the caches), to measure";
	if (size >= sizeof(text))
		return "the size is larger than 1024T";
	memcpy(text, rest, size);
	text[size] = 0;
	return parse_size(text, &out->size_bytes);
}

static const char *parse_file(struct nvme_name *out, const char *rest)
{
	const char *query = strrchr(rest, '?');
	size_t path_size = query ? (size_t)(query - rest) : strlen(rest);

	if (path_size == 0)
		return "no path: a file's drive is called file:/some/path";
	if (path_size >= sizeof(out->path))
		return "the path is too long";
	memcpy(out->path, rest, path_size);
	out->path[path_size] = 0;
	if (!query)
		return NULL;
	if (strncmp(query, "?size=", 6) != 0)
		return "after '?' only size=SIZE is known, such as ?size=8G";
	return parse_size(query + 6, &out->size_bytes);
}

/* Reads 1 to `digits_max` hexadecimal digits at *text, at most `max`, and moves *text past them. */
static bool take_hex(const char **text, int digits_max, uint32_t max, uint32_t *out)
{
	uint32_t v = 0;
	int digits = 0;

	for (; digits < digits_max; digits++) {
		char c = **text;

		if (c >= '0' && c <= '9')
			v = v << 4 | (uint32_t)(c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			v = v << 4 | (uint32_t)((c | 0x20) - 'a' + 10);
		else
			break;
		(*text)++;
	}
	*out = v;
	return digits > 0 && v <= max;
}

static bool take_char(const char **text, char c)
{
	return **text == c && (*text)++;
}

static const char *parse_nsid(struct nvme_name *out, const char *text)
{
	uint64_t v = 0;

	if (strncmp(text, "nsid=", 5) != 0)
		return "after '?' only nsid=N is known, such as ?nsid=1";
	text += 5;
	for (; *text >= '0' && *text <= '9' && v < UINT32_MAX; text++)
		v = v * 10 + (uint64_t)(*text - '0');
	if (*text || v == 0 || v >= UINT32_MAX)
		return "a namespace is a number from 1 to 4294967294, such as ?nsid=1";
	out->nsid = (uint32_t)v;
	return NULL;
}

static const char *parse_pci(struct nvme_name *out, const char *rest)
{
	uint32_t domain, bus, device, function;

	if (!take_hex(&rest, 8, UINT32_MAX, &domain) || !take_char(&rest, ':') ||
	    !take_hex(&rest, 2, 0xff, &bus) || !take_char(&rest, ':') ||
	    !take_hex(&rest, 2, 0x1f, &device) || !take_char(&rest, '.') ||
	    !take_hex(&rest, 1, 7, &function) || (*rest && *rest != '?'))
		return "an address is DOMAIN:BUS:DEVICE.FUNCTION, such as pci:0000:01:00.0";
	(void)snprintf(out->path, sizeof(out->path), "%04x:%02x:%02x.%x", domain, bus, device,
		       function);
	return *rest ? parse_nsid(out, rest + 1) : NULL;
}

static const char *parse_vfio_user(struct nvme_name *out, const char *rest)
{
	const char *query = strrchr(rest, '?');
	size_t path_size = query ? (size_t)(query - rest) : strlen(rest);

	if (path_size == 0)
		return "no path: a server's drive is called vfio-user:/some/socket";
	if (path_size >= sizeof(out->path))
		return "the path is too long";
	memcpy(out->path, rest, path_size);
	out->path[path_size] = 0;
	return query ? parse_nsid(out, query + 1) : NULL;
}

int nvme__name_parse(struct nvme_name *out, const char *name, char *err_text, size_t err_text_size)
{
	const char *wrong;

	out->size_bytes = 0;
	out->path[0] = 0;
	out->nsid = 0;
	out->copy = NVME_COPY_AS_CARDS;
	if (strncmp(name, "file:", 5) == 0) {
		out->kind = NVME_NAME_FILE;
		wrong = parse_file(out, name + 5);
	} else if (strncmp(name, "mem:", 4) == 0) {
		out->kind = NVME_NAME_MEM;
		wrong = parse_mem(out, name + 4);
	} else if (strncmp(name, "pci:", 4) == 0) {
		out->kind = NVME_NAME_PCI;
		wrong = parse_pci(out, name + 4);
	} else if (strncmp(name, "vfio-user:", 10) == 0) {
		out->kind = NVME_NAME_VFIO_USER;
		wrong = parse_vfio_user(out, name + 10);
	} else {
		wrong = "unknown kind of drive: pci:0000:01:00.0, vfio-user:SOCKET, "
			"file:PATH?size=8G or mem:4G";
	}
	if (!wrong)
		return 0;
	nvme__err_text(err_text, err_text_size, name, "%s", wrong);
	return -EINVAL;
}

uint32_t nvme__name_nsid(const char *name)
{
	struct nvme_name parsed;

	return nvme__name_parse(&parsed, name, NULL, 0) ? 0 : parsed.nsid;
}

int nvme_name_check(const char *name, char *err_text, size_t err_text_size)
{
	struct nvme_name parsed;

	return nvme__name_parse(&parsed, name, err_text, err_text_size);
}

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Health: parses the log page's foreign bytes, and explains them to people. */
#include "nvme/nvme_internal.h"
#include "nvme/nvme_events.h"

#include <stdio.h>

#define UNIT_BYTES   512000ull /* of data read and written: a thousand old blocks */
#define ZERO_CELSIUS 273

/* 128 bits; what no drive will ever reach is the most there is. */
static uint64_t number(const le64 v[2])
{
	return le64_get(v[1]) ? UINT64_MAX : le64_get(v[0]);
}

static uint64_t unit_bytes(const le64 v[2])
{
	uint64_t bytes;

	return mul_overflows(number(v), UNIT_BYTES, &bytes) ? UINT64_MAX : bytes;
}

void nvme__read_health(struct nvme_smart *smart, const struct nvme_log_health *log)
{
	uint32_t kelvin = log->kelvin[0] | (uint32_t)log->kelvin[1] << 8;

	*smart = (struct nvme_smart){
		.warnings = log->warning,
		.has_temperature = kelvin != 0,
		.celsius = kelvin ? (int32_t)kelvin - ZERO_CELSIUS : 0,
		.spare_percent = log->spare_percent,
		.spare_least_percent = log->spare_least_percent,
		.used_percent = log->used_percent,
		.read_bytes = unit_bytes(log->read_units),
		.written_bytes = unit_bytes(log->written_units),
		.power_hours = number(log->power_hours),
		.power_cycles = number(log->power_cycles),
		.unsafe_shutdowns = number(log->unsafe_shutdowns),
		.media_errors = number(log->media_errors),
		.error_entries = number(log->error_entries),
		.warm_minutes = le32_get(log->warm_minutes),
		.hot_minutes = le32_get(log->hot_minutes),
	};
}

static void say(uint32_t warning, const struct nvme_smart *s, char *text, size_t text_size)
{
	switch (warning) {
	case NVME_WARN_SPARE:
		(void)snprintf(text, text_size,
			       "only %u %% of its spare blocks are left (limit %u %%)",
			       s->spare_percent, s->spare_least_percent);
		break;
	case NVME_WARN_TEMPERATURE:
		(void)snprintf(text, text_size, "its temperature is out of bounds: %d C",
			       s->celsius);
		break;
	case NVME_WARN_RELIABILITY:
		(void)snprintf(
			text, text_size,
			"it is no longer reliable: %llu media errors, %u %% of its life used",
			(unsigned long long)s->media_errors, s->used_percent);
		break;
	case NVME_WARN_READ_ONLY:
		(void)snprintf(text, text_size, "it takes no more writes");
		break;
	case NVME_WARN_BACKUP:
		(void)snprintf(text, text_size, "what backs up its volatile memory has failed");
		break;
	default:
		(void)snprintf(text, text_size, "it warns of something unknown: %02x", warning);
	}
}

bool nvme__health_line(uint32_t *told, const struct nvme_smart *smart, char *text, size_t text_size)
{
	uint32_t fresh = smart->warnings & ~*told, first = fresh & -fresh;

	*told &= smart->warnings; /* a warning that is over is reported again when it returns */
	if (!fresh)
		return false;
	*told |= first;
	say(first, smart, text, text_size);
	return true;
}

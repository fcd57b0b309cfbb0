/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "appliance/ctl/ctl_figures.h"
#include "appliance/ctl/ctl_space.h"
#include "base/num.h"

void ctl_space_of(const json_t *status, struct ctl_space *out)
{
	const uint64_t zone = ctl_num(status, "store", "zone_bytes");
	const uint64_t zones = ctl_num(status, "store", "zones_total");
	const uint64_t empty = min_u64(ctl_num(status, "store", "zones_free"), zones);
	uint64_t live;

	*out = (struct ctl_space){
		.drives_bytes = zones * zone,
		.files_bytes = ctl_num(status, "store", "live_file_bytes"),
		.index_bytes = ctl_num(status, "store", "live_index_bytes"),
		.log_bytes = ctl_num(status, "store", "zones_log") * zone,
		.empty_bytes = empty * zone,
		.free_bytes = ctl_num(status, "store", "free_bytes"),
	};
	live = out->files_bytes + out->index_bytes + out->log_bytes;
	out->dead_bytes = (zones - empty) * zone - min_u64((zones - empty) * zone, live);
	out->kept_bytes = out->dead_bytes + out->empty_bytes;
	out->kept_bytes -= min_u64(out->kept_bytes, out->free_bytes);
}

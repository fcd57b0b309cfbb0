/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Lines about drives that fail, for the log: few, however many errors there are. */
#ifndef APP_FAULT_LOG_H
#define APP_FAULT_LOG_H

#include "appliance/conf/app_conf.h"
#include "appliance/media/app_faults.h"

#define APP_FAULT_LINE 512u
#define APP_FAULT_FULL 10u /* errors of a drive that have a line of their own, before: */

struct app_fault_log {
	struct {
		uint64_t from_ns;             /* the interval began */
		uint32_t told;                /* lines of single errors in it */
		uint64_t said[APP_FAULT_OPS]; /* errors in lines, single or counted */
		struct app_fault last;
	} drive[META_DRIVES_MAX];
};

/* Returns false when there is nothing to say now.  `name` may be NULL. */
must_check bool app_fault_log_line(struct app_fault_log *log, struct app_faults *faults,
				   uint32_t cores, char (*name)[APP_CONF_TEXT_MAX], uint64_t now_ns,
				   char text[APP_FAULT_LINE]);

/* When there may be a line though nothing new has come; UINT64_MAX: never. */
uint64_t app_fault_log_deadline(const struct app_fault_log *log, const struct app_faults *faults,
				uint32_t cores);

#endif

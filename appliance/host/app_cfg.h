/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* The configuration file's limits, as a core and the fabric take them. */
#ifndef APP_CFG_H
#define APP_CFG_H

#include "appliance/core/app_core.h"

/* Sets the limits; what a core stands on (drives, server, lines) is the caller's to set. */
void app_cfg_core(const struct app_conf *c, struct app_core_cfg *out);
/* Returns the number, or META_SPARE_AUTO. */
uint32_t app_cfg_spare_drives(const struct app_conf *c);
void app_cfg_fabric(const struct app_conf *c, struct fab_server_cfg *out);

#endif

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Checks that this machine has the CPUs, memory, descriptors, drives and addresses of the
 * configuration. */
#ifndef APP_MACHINE_H
#define APP_MACHINE_H

#include "appliance/conf/app_conf.h"
#include "appliance/core/app_core.h"

struct app_account;

/**
 * app_machine_check - can this machine give what `conf` asks for?
 *
 * Both the start and --check-config ask this.  Changes nothing.
 * Errors:  -EINVAL (CPUs), -ENOMEM, with a line in `why` (APP_CONF_WHY).
 */
must_check int app_machine_check(const struct app_conf *conf, const struct app_account *account,
				 char *why);

/**
 * app_machine_look - are the drives and addresses of `conf` there?
 *
 * For --check-config: the start finds out by opening them.  Opens no drive and listens nowhere.  A
 * drive or address that the start would wait for, or that a running daemon uses, is a line on
 * `notes`.
 * Errors:  what stat(), access() and bind() say, with a line in `why` (APP_CONF_WHY).
 */
must_check int app_machine_look(const struct app_conf *conf, FILE *notes, char *why);

/* Chooses the CPU of each polling thread; -1: it is not pinned. */
void app_machine_cpus(const struct app_conf *conf, int cpus[APP_CORES_MAX]);

/* Raises the limit of descriptors to what clients and drives may need; logs if it cannot. */
void app_machine_files(const struct app_conf *conf);

#endif

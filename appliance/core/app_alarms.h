/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Alarms: each says what is wrong, as a snapshot shows it, and what a person should do. */
#ifndef APP_ALARMS_H
#define APP_ALARMS_H

#include "appliance/core/app_snapshot.h"

#define APP_ALARM_TEXT 160u
#define APP_ALARMS_MAX 64u /* of more, those that come last are left out */

struct app_alarm {
	const char *id; /* stable: wekactl-status(5) lists them */
	bool critical;
	const char *action;
	char text[APP_ALARM_TEXT];
};

/* Fills in the alarms, the critical ones first.  Returns how many.  Any thread; takes no memory. */
uint32_t app_alarms(const struct app_snapshot *s, struct app_alarm out[APP_ALARMS_MAX]);

#endif

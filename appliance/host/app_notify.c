/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Tells the service manager how the daemon is. */
#include "appliance/host/app_notify.h"
#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A path, or behind @ an abstract name. */
static bool parse_socket(struct app_notify *n, const char *name)
{
	size_t bytes = strlen(name);

	if ((name[0] != '/' && name[0] != '@') || bytes < 2 || bytes >= sizeof(n->to.sun_path))
		return false;
	n->to = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(n->to.sun_path, name, bytes);
	if (name[0] == '@')
		n->to.sun_path[0] = '\0';
	n->to_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes);
	return true;
}

static uint64_t watchdog_ns(void)
{
	const char *pid = getenv("WATCHDOG_PID"), *us = getenv("WATCHDOG_USEC");
	char *end;
	unsigned long long value;

	if (!us || (pid && strtoull(pid, NULL, 10) != (unsigned long long)getpid()))
		return 0;
	value = strtoull(us, &end, 10);
	return *end || value > UINT64_MAX / NS_PER_US ? 0 : value * NS_PER_US;
}

void app_notify_open(struct app_notify *n)
{
	const char *name = getenv("NOTIFY_SOCKET");

	*n = (struct app_notify){ .fd = -1 };
	if (!name)
		return;
	if (!parse_socket(n, name)) {
		log_warn("WEKA-103: NOTIFY_SOCKET=%s: no name of a socket", name);
		return;
	}
	n->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	n->every_ns = n->fd < 0 ? 0 : watchdog_ns() / 2;
}

static void say(const struct app_notify *n, const char *text)
{
	if (n->fd >= 0)
		(void)!sendto(n->fd, text, strlen(text), MSG_NOSIGNAL,
			      (const struct sockaddr *)&n->to, n->to_bytes);
}

void app_notify_ready(const struct app_notify *n)
{
	say(n, "READY=1\nSTATUS=serving\n");
}

void app_notify_stopping(const struct app_notify *n)
{
	say(n, "STOPPING=1\nSTATUS=stopping\n");
}

void app_notify_step(struct app_notify *n, struct app_run *run, uint64_t now_ns)
{
	if (n->every_ns == 0 || now_ns < n->next_ns)
		return;
	n->next_ns = now_ns + n->every_ns;
	if (app_run_is_alive(run, n->beats))
		say(n, "WATCHDOG=1\n");
	else
		log_error("WEKA-104: a polling thread stands still");
}

uint64_t app_notify_deadline(const struct app_notify *n)
{
	return n->every_ns ? n->next_ns : UINT64_MAX;
}

void app_notify_close(struct app_notify *n)
{
	if (n->fd >= 0)
		close(n->fd);
	n->fd = -1;
}

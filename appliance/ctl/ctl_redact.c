/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Paths of clients are absolute in the log, and a line of the log has no control character, so what
 * follows a '/' that begins a path is a name, or behind one.
 */
#include "appliance/ctl/ctl_redact.h"

#include <ctype.h>
#include <string.h>

#define LEFT_OUT "(left out)"

/* Returns the length of `known` if the text begins with it. */
static size_t begins(const char *text, const char *known)
{
	const size_t bytes = strlen(known);

	return bytes && strncmp(text, known, bytes) == 0 ? bytes : 0;
}

static size_t longer(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* Returns the length of the longest text of the configuration that stands here. */
static size_t known_here(const char *text, const struct app_conf *conf)
{
	size_t found = longer(begins(text, "/etc/weka-appliance.conf"), begins(text, "/dev/vfio"));

	if (!conf)
		return found;
	for (uint32_t i = 0; i < conf->ndrives; i++)
		found = longer(found, begins(text, conf->drive[i]));
	for (uint32_t i = 0; i < conf->nlisten; i++)
		found = longer(found, begins(text, conf->listen[i]));
	found = longer(found, begins(text, conf->file));
	found = longer(found, begins(text, conf->key_file));
	found = longer(found, begins(text, conf->key_dir));
	return longer(found, begins(text, conf->metrics_token_file));
}

/* "tcp://", "tls://", "rdma://", "http://": an address follows, up to a blank or a path. */
static size_t address_here(const char *text)
{
	static const char *const kinds[] = { "tcp://", "tls://", "rdma://", "http://" };
	size_t found = 0;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		found = longer(found, begins(text, kinds[i]));
	return found ? found + strcspn(text + found, " /\n") : 0;
}

static bool is_path(const char *line, const char *at)
{
	/* "B/s" and "and/or" are none. */
	return *at == '/' && (at == line || !isalnum((unsigned char)at[-1]));
}

static const char *put_line(FILE *to, const char *line, const struct app_conf *conf)
{
	const char *at = line;

	while (*at && *at != '\n') {
		const size_t keep = longer(known_here(at, conf), address_here(at));

		ASSERT(keep <= strlen(at));
		if (keep) {
			fwrite(at, 1, keep, to);
			at += keep;
		} else if (is_path(line, at)) {
			fputs(LEFT_OUT, to);
			at += strcspn(at, "\n");
		} else {
			fputc(*at++, to);
		}
	}
	fputc('\n', to);
	return *at ? at + 1 : at;
}

void ctl_redact(FILE *to, const char *text, const struct app_conf *conf)
{
	while (*text)
		text = put_line(to, text, conf);
}

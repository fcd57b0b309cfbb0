/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* wekactl doctor: what the service needs besides drives: files of keys that it may read and others
 * may not, drives that it may write, addresses, an RDMA device, a clock. */
#include "appliance/conf/app_conf_metrics.h"
#include "appliance/ctl/ctl_doctor.h"
#include "base/clock.h"
#include "base/num.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define UNIT "weka-appliance.service"

/* ---- permissions --------------------------------------------------------------------------- */

/* The number of the user `name`.  False: there is no such user. */
static bool uid_of(const struct ctl_doctor *d, const char *name, uid_t *uid)
{
	char *text, *at, *line;
	bool found = false;
	size_t bytes;

	if (ctl_sysfs_slurp(&text, &bytes, d->root, "/etc/passwd"))
		return false;
	for (at = text; !found && (line = ctl_next_line(&at));) {
		const size_t len = strcspn(line, ":");
		const char *number = strchr(line + len + (line[len] == ':'), ':');

		if (len != strlen(name) || strncmp(line, name, len) != 0 || !number)
			continue;
		*uid = (uid_t)strtoul(number + 1, NULL, 10);
		found = true;
	}
	free(text);
	return found;
}

/* Returns the user that the daemon runs as: the unit's if it is installed, else this one. */
static uid_t user_of_daemon(const struct ctl_doctor *d, const char **name)
{
	uid_t uid;

	*name = "weka";
	if (ctl_doctor_has_unit(d, UNIT) && uid_of(d, "weka", &uid))
		return uid;
	*name = "$(id -un)";
	return geteuid();
}

/* A secret: only its owner may read it, and that is the daemon's user. */
static void look_secret(struct ctl_doctor *d, const char *path)
{
	const char *name;
	const uid_t uid = user_of_daemon(d, &name);
	char full[CTL_PATH_SIZE];
	struct stat st;

	if (!*path || ctl_sysfs_path(full, d->root, "%s", path))
		return;
	if (stat(full, &st) < 0) {
		if (errno == EACCES) /* this user cannot look into the directory */
			return;
		ctl_doctor_wrong_is(d, "permissions", "%s: %s", path, strerror(errno));
		if (strcmp(path, d->conf->key_file) == 0)
			ctl_doctor_fix(d, "wekactl --config %s keys init", d->conf_file);
		else if (strcmp(path, d->conf->key_dir) == 0)
			ctl_doctor_fix(d, "install -d -o %s -m 0700 %s", name, path);
		else
			ctl_doctor_fix(d, "(umask 077 && openssl rand -hex 32 > %s) && chown %s %s",
				       path, name, path);
	} else if (st.st_mode & 077) {
		ctl_doctor_wrong_is(d, "permissions", "%s: mode %03o: only its owner may read it",
				    path, (unsigned)st.st_mode & 0777);
		ctl_doctor_fix(d, "chmod go= %s", path);
	} else if (st.st_uid != uid) {
		ctl_doctor_wrong_is(d, "permissions",
				    "%s: belongs to user %u, but the daemon runs as user %u", path,
				    (unsigned)st.st_uid, (unsigned)uid);
		ctl_doctor_fix(d, "chown -R %s %s", name, path);
	} else {
		ctl_doctor_ok(d, "permissions", "%s: its owner's alone", path);
	}
}

/* May the user read and write the file?  A file of its group, or of root's, is not judged. */
static bool may_write(const struct stat *st, uid_t uid)
{
	if (uid == 0 || (st->st_mode & S_IRWXG & 060) == 060)
		return true;
	return (st->st_mode & (st->st_uid == uid ? 0600u : 06u)) ==
	       (st->st_uid == uid ? 0600u : 06u);
}

static void look_file_drive(struct ctl_doctor *d, const char *drive)
{
	const char *name;
	const uid_t uid = user_of_daemon(d, &name);
	char full[CTL_PATH_SIZE], path[APP_CONF_TEXT_MAX];
	struct stat st;

	ASSERT(strncmp(drive, "file:", 5) == 0);
	snprintf(path, sizeof(path), "%.*s", (int)strcspn(drive + 5, "?"), drive + 5);
	if (ctl_sysfs_path(full, d->root, "%s", path) || stat(full, &st) < 0)
		return; /* format makes it */
	if (may_write(&st, uid)) {
		ctl_doctor_ok(d, "permissions", "%s: the daemon may write it", path);
		return;
	}
	ctl_doctor_wrong_is(
		d, "permissions",
		"%s: belongs to user %u, mode %03o: the daemon, user %u, may not write it", path,
		(unsigned)st.st_uid, (unsigned)st.st_mode & 0777, (unsigned)uid);
	ctl_doctor_fix(d, "chown %s %s && chmod u+rw %s", name, path, path);
}

void ctl_doctor_permissions(struct ctl_doctor *d)
{
	if (!d->conf)
		return;
	look_secret(d, d->conf->key_file);
	look_secret(d, d->conf->key_dir);
	look_secret(d, d->conf->metrics_token_file);
	for (uint32_t i = 0; i < d->conf->ndrives; i++)
		if (strncmp(d->conf->drive[i], "file:", 5) == 0)
			look_file_drive(d, d->conf->drive[i]);
}

/* ---- addresses ----------------------------------------------------------------------------- */

/* An address as /proc/net/tcp and tcp6 print it: words of the machine's byte order. */
struct hex_address {
	char any[40], own[40];
	bool is_any;
};

static void print_hex(char *out, size_t size, const void *bytes, size_t words)
{
	uint32_t word;

	ASSERT(size > 8 * words);
	for (size_t i = 0; i < words; i++) {
		memcpy(&word, (const char *)bytes + 4 * i, 4);
		snprintf(out + 8 * i, size - 8 * i, "%08X", word);
	}
}

static void hex_of(const struct sockaddr_storage *a, struct hex_address *out)
{
	static const char zeros[16];
	const struct sockaddr_in *in = (const void *)a;
	const struct sockaddr_in6 *in6 = (const void *)a;
	const bool is_6 = a->ss_family == AF_INET6;

	print_hex(out->any, sizeof(out->any), zeros, is_6 ? 4 : 1);
	print_hex(out->own, sizeof(out->own),
		  is_6 ? (const void *)&in6->sin6_addr : (const void *)&in->sin_addr, is_6 ? 4 : 1);
	out->is_any = strcmp(out->own, out->any) == 0;
}

/* "  0: 0100007F:1B62 00000000:0000 0A ... uid timeout inode": returns the inode of a socket that
 * listens at the address, or 0. */
static uint64_t listener_of(char *line, const struct hex_address *address, unsigned port)
{
	char *word[10] = { NULL }, *colon;

	for (size_t i = 0; i < 10; i++)
		word[i] = ctl_next_word(&line);
	if (!word[9] || strcmp(word[3], "0A") != 0)
		return 0;
	colon = strchr(word[1], ':');
	if (!colon || strtoul(colon + 1, NULL, 16) != port)
		return 0;
	*colon = '\0';
	if (!address->is_any && strcmp(word[1], address->own) != 0 &&
	    strcmp(word[1], address->any) != 0)
		return 0;
	return strtoull(word[9], NULL, 10);
}

static uint64_t find_listener(const struct ctl_doctor *d, const struct sockaddr_storage *a)
{
	const bool is_6 = a->ss_family == AF_INET6;
	const unsigned port = ntohs(is_6 ? ((const struct sockaddr_in6 *)(const void *)a)->sin6_port
					 : ((const struct sockaddr_in *)(const void *)a)->sin_port);
	struct hex_address address;
	uint64_t inode = 0;
	char *text, *at, *line;
	size_t bytes;

	hex_of(a, &address);
	if (ctl_sysfs_slurp(&text, &bytes, d->root, is_6 ? "/proc/net/tcp6" : "/proc/net/tcp"))
		return 0;
	for (at = text; !inode && (line = ctl_next_line(&at));)
		inode = listener_of(line, &address, port);
	free(text);
	return inode;
}

static bool has_socket(const struct ctl_doctor *d, const char *pid, const char *socket)
{
	struct ctl_entries fds;
	char target[CTL_ENTRY_SIZE];
	bool has = false;

	if (ctl_sysfs_list(&fds, d->root, "/proc/%s/fd", pid) == 0)
		for (uint32_t i = 0; i < fds.count && !has; i++)
			has = ctl_sysfs_link(target, sizeof(target), d->root, "/proc/%s/fd/%s", pid,
					     fds.name[i]) == 0 &&
			      strcmp(target, socket) == 0;
	ctl_entries_free(&fds);
	return has;
}

/* The process that has the socket, and its name.  False: another user's, which cannot be seen. */
static bool find_owner(const struct ctl_doctor *d, uint64_t inode, char pid[CTL_ENTRY_SIZE],
		       char comm[32])
{
	struct ctl_entries all;
	char socket[64];
	bool found = false;

	snprintf(socket, sizeof(socket), "socket:[%llu]", (unsigned long long)inode);
	if (ctl_sysfs_list(&all, d->root, "/proc") == 0)
		for (uint32_t i = 0; i < all.count && !found; i++) {
			if (all.name[i][0] < '0' || all.name[i][0] > '9' ||
			    !has_socket(d, all.name[i], socket))
				continue;
			snprintf(pid, CTL_ENTRY_SIZE, "%s", all.name[i]);
			found = ctl_sysfs_read(comm, 32, d->root, "/proc/%s/comm", pid) == 0;
		}
	ctl_entries_free(&all);
	return found;
}

static void look_address(struct ctl_doctor *d, const char *key, const char *text)
{
	const char *host = strstr(text, "://");
	struct app_conf_address a;
	char pid[CTL_ENTRY_SIZE], comm[32];
	uint64_t inode;

	if (app_conf_metrics_address(host ? host + 3 : text, &a))
		return;
	inode = find_listener(d, &a.address);
	if (!inode) {
		ctl_doctor_ok(d, "port", "%s = %s: free", key, text);
	} else if (!find_owner(d, inode, pid, comm)) {
		ctl_doctor_ok(d, "port", "%s = %s: a process of another user listens there", key,
			      text);
	} else if (strcmp(comm, "weka-appliance") == 0) {
		ctl_doctor_ok(d, "port", "%s = %s: served by the appliance that runs", key, text);
	} else {
		ctl_doctor_wrong_is(d, "port", "%s = %s: taken by %s, process %s", key, text, comm,
				    pid);
		ctl_doctor_fix(d, "systemctl status %s   # stop that, or choose another port in %s",
			       pid, d->conf_file);
	}
}

void ctl_doctor_ports(struct ctl_doctor *d)
{
	for (uint32_t i = 0; d->conf && i < d->conf->nlisten; i++)
		if (strncmp(d->conf->listen[i], "tcp://", 6) == 0 ||
		    strncmp(d->conf->listen[i], "tls://", 6) == 0)
			look_address(d, "listen", d->conf->listen[i]);
	if (d->conf && *d->conf->metrics)
		look_address(d, "metrics", d->conf->metrics);
}

/* ---- RDMA ---------------------------------------------------------------------------------- */

void ctl_doctor_rdma(struct ctl_doctor *d)
{
	struct ctl_entries devices;
	bool wanted = false;

	for (uint32_t i = 0; d->conf && i < d->conf->nlisten; i++)
		wanted |= strncmp(d->conf->listen[i], "rdma://", 7) == 0;
	if (!wanted)
		return;
	if (ctl_sysfs_list(&devices, d->root, "/sys/class/infiniband"))
		devices.count = 0;
	if (!devices.count) {
		ctl_doctor_wrong_is(d, "rdma", "no RDMA device, and the configuration has rdma://");
		ctl_doctor_fix(d, "apt install rdma-core && modprobe mlx5_ib   # or your card's "
				  "driver; over Ethernet: rdma link add rxe0 type rxe netdev "
				  "INTERFACE");
	} else if (!ctl_sysfs_exists(d->root, "/dev/infiniband/rdma_cm")) {
		ctl_doctor_wrong_is(d, "rdma", "%s, but no /dev/infiniband/rdma_cm",
				    devices.name[0]);
		ctl_doctor_fix(d, "modprobe rdma_ucm && echo rdma_ucm > "
				  "/etc/modules-load.d/weka-rdma.conf");
	} else {
		ctl_doctor_ok(d, "rdma", "%u device%s, the first is %s", devices.count,
			      devices.count == 1 ? "" : "s", devices.name[0]);
	}
	ctl_entries_free(&devices);
}

/* ---- the clock ----------------------------------------------------------------------------- */

#define SKEW_S 60

/* Returns how many seconds after now the newest of some files was changed; *newest: which. */
static int64_t ahead(const struct ctl_doctor *d, const char **newest)
{
	const char *const files[] = { d->conf_file, "/etc/passwd", "/var/lib/dpkg/status",
				      "/etc/adjtime" };
	const int64_t now_s = (int64_t)(clock_wall_ns() / NS_PER_S);
	int64_t most_s = INT64_MIN;
	char full[CTL_PATH_SIZE];
	struct stat st;

	*newest = "";
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		if (ctl_sysfs_path(full, d->root, "%s", files[i]) || stat(full, &st) < 0 ||
		    st.st_mtim.tv_sec - now_s <= most_s)
			continue;
		most_s = st.st_mtim.tv_sec - now_s;
		*newest = files[i];
	}
	return most_s;
}

/* The service that keeps the clock right, NULL: none runs. */
static const char *keeper(const struct ctl_doctor *d)
{
	static const struct {
		const char *path, *name;
	} keepers[] = {
		{ "/run/systemd/timesync/synchronized", "systemd-timesyncd" },
		{ "/run/chrony/chronyd.pid", "chrony" },
		{ "/run/ntpd.pid", "ntpd" },
		{ "/run/ntpsec/ntpd.pid", "ntpsec" },
	};

	for (size_t i = 0; i < ARRAY_LEN(keepers); i++)
		if (ctl_sysfs_exists(d->root, "%s", keepers[i].path))
			return keepers[i].name;
	return NULL;
}

/* Times of files are those of this clock, and clients compare them with their own. */
void ctl_doctor_clock(struct ctl_doctor *d)
{
	const char *newest, *by = keeper(d);
	const int64_t skew_s = ahead(d, &newest);

	if (skew_s > SKEW_S) {
		ctl_doctor_wrong_is(d, "clock", "it is slow: %s was changed %lld s after now",
				    newest, (long long)skew_s);
		ctl_doctor_fix(d, "apt install systemd-timesyncd && timedatectl set-ntp true");
	} else if (!by) {
		ctl_doctor_wrong_is(d, "clock", "nothing keeps it right");
		ctl_doctor_fix(d, "apt install systemd-timesyncd && timedatectl set-ntp true");
	} else {
		ctl_doctor_ok(d, "clock", "kept right by %s", by);
	}
}

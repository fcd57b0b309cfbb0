/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * An appliance of our own, for the length of a benchmark.
 *
 *   /dev/shm/weka-bench.XXXXXX/   key   conf   log   sock (shm)
 *
 *   make directory, key and configuration -> (format a file: drive) -> start the program that
 *   lies beside ours -> wait until it answers -> ... -> SIGTERM, wait, remove the directory
 *
 *  (1) A started child is waited for, or is killed when we end (its parent-death signal)
 *      [e2e_collect:killed].
 *  (2) The directory is removed, unless we are killed; a drive's file stays only when it
 *      was there before [e2e_collect:stays].
 */
#define _GNU_SOURCE
#include "bench/bench_env.h"
#include "base/clock.h"
#include "base/num.h"
#include "bench/bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEY_ID        "bench"
#define START_S       60 /* a large memory drive is touched page by page first */
#define STOP_S        20
#define LOG_TAIL      2000
#define PROBE_POOL    (2u << 20)
#define SESSIONS_MORE 16
#define CACHE_OP      (128u << 10) /* that the appliance needs for each of ops_max */
#define OPS_MAX       128
#define PROBE_WAIT_NS (5 * NS_PER_S)

struct bench_env {
	const struct bench_conf *conf;
	char dir[64];             /* "": none was made                  */
	char drive_file[256];     /* to be removed at the end; "": none */
	char address[128];        /* of our own appliance               */
	uint8_t secret[32];       /* its key                            */
	pid_t pid;                /* it; 0: none runs                   */
	struct weka_key key;      /* what clients prove                 */
	const char *const *where; /* addresses                          */
	const char *own[1];
	uint32_t count;
};

static void sleep_ms(long ms)
{
	struct timespec t = { .tv_nsec = ms * 1000000 };

	(void)nanosleep(&t, NULL);
}

/* ---- files ------------------------------------------------------------------------ */

static int make_dir(struct bench_env *env)
{
	const char *tmp = getenv("TMPDIR");
	const char *const own = env->conf->own_dir; /* no other, if it is given */
	const char *const roots[] = { own ? own : "/dev/shm",
				      own   ? own
				      : tmp ? tmp
					    : "/tmp",
				      own ? own : "/tmp" };

	for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
		int n = snprintf(env->dir, sizeof(env->dir), "%s/weka-bench.XXXXXX", roots[i]);

		if (n < (int)sizeof(env->dir) && mkdtemp(env->dir))
			return 0;
	}
	env->dir[0] = '\0';
	return bench_fail("cannot make a directory in %s: %s",
			  own ? own : "/dev/shm, TMPDIR or /tmp", strerror(errno));
}

static void path_of(const struct bench_env *env, const char *name, char out[96])
{
	snprintf(out, 96, "%s/%s", env->dir, name);
}

static FILE *create_file(const struct bench_env *env, const char *name, char path[96])
{
	int fd;

	path_of(env, name, path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return fd < 0 ? NULL : fdopen(fd, "w");
}

static int write_key(struct bench_env *env)
{
	char path[96];
	FILE *f;

	if (getrandom(env->secret, sizeof(env->secret), 0) != (ssize_t)sizeof(env->secret))
		return bench_fail("no random bytes: %s", strerror(errno));
	f = create_file(env, "key", path);
	if (!f)
		return bench_fail("%s: %s", path, strerror(errno));
	for (size_t i = 0; i < sizeof(env->secret); i++)
		fprintf(f, "%02x", env->secret[i]);
	fputc('\n', f);
	if (fclose(f) != 0)
		return bench_fail("%s: %s", path, strerror(errno));
	env->key = (struct weka_key){ .id = KEY_ID, .secret = env->secret };
	return 0;
}

/* A port that is free now.  If another program takes it first, the appliance says so. */
static int free_port(uint16_t *out)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), err = 0;

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, size) != 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &size) != 0)
		err = -errno;
	if (fd >= 0)
		close(fd);
	*out = ntohs(a.sin_port);
	return err;
}

static void own_drive(const struct bench_env *env, uint32_t i, char path[96])
{
	char name[16];

	ASSERT(i < env->conf->own_drives);
	snprintf(name, sizeof(name), "d%u", i);
	path_of(env, name, path);
}

static void write_drives(const struct bench_env *env, FILE *f)
{
	char path[96];

	for (uint32_t i = 0; i < env->conf->own_drives; i++) {
		own_drive(env, i, path);
		if (env->conf->own_memory)
			fprintf(f, "drive = mem:%llu\n",
				(unsigned long long)env->conf->own_drive_bytes);
		else
			fprintf(f, "drive = file:%s?size=%llu\n", path,
				(unsigned long long)env->conf->own_drive_bytes);
	}
	if (env->conf->own_drives == 0)
		fprintf(f, "drive = %s\n", env->conf->drive);
	else if (env->conf->own_memory) /* the appliance formats them */
		fprintf(f, "protect = %s\n", env->conf->protect);
}

static int write_conf(struct bench_env *env)
{
	char path[96];
	uint16_t port;
	FILE *f;
	int err;
	const bool tls = strcmp(env->conf->transport, "tls") == 0;

	if (tls || strcmp(env->conf->transport, "tcp") == 0) {
		err = free_port(&port);
		if (err)
			return bench_fail("no free port: %s", strerror(-err));
		snprintf(env->address, sizeof(env->address), "%s://127.0.0.1:%u",
			 env->conf->transport, port);
	} else {
		snprintf(env->address, sizeof(env->address), "shm:%s/sock", env->dir);
	}
	f = create_file(env, "conf", path);
	if (!f)
		return bench_fail("%s: %s", path, strerror(errno));
	write_drives(env, f);
	fprintf(f, "listen = %s%s\nkey_id = %s\nkey_file = %s/key\n%s", tls ? "tcp" : "",
		tls ? env->address + 3 : env->address, KEY_ID, env->dir,
		env->conf->lines ? env->conf->lines : "");
	if (tls)
		fprintf(f, "tls = required\n");
	if (env->conf->core_appliance >= 0)
		fprintf(f, "core = %d\n", env->conf->core_appliance);
	else
		fprintf(f, "core = none\n");
	if (env->conf->cache_bytes > 0) /* and as many operations as may share it, or the default */
		fprintf(f, "cache = %llu\nops_max = %llu\n",
			(unsigned long long)env->conf->cache_bytes,
			(unsigned long long)min_u64(env->conf->cache_bytes / CACHE_OP, OPS_MAX));
	if (env->conf->sessions > 0) /* and some spare ones */
		fprintf(f, "sessions_max = %u\n",
			env->conf->sessions + env->conf->deaf + SESSIONS_MORE);
	return fclose(f) == 0 ? 0 : bench_fail("%s: %s", path, strerror(errno));
}

static void remove_dir(struct bench_env *env)
{
	static const char *const names[] = { "key", "conf", "log", "sock" };
	char path[96];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		path_of(env, names[i], path);
		(void)unlink(path);
	}
	for (uint32_t i = 0; i < env->conf->own_drives; i++) {
		own_drive(env, i, path);
		(void)unlink(path);
	}
	if (rmdir(env->dir) != 0)
		fprintf(stderr, "weka-bench: %s stays: %s\n", env->dir, strerror(errno));
	env->dir[0] = '\0';
}

static void show_log(const struct bench_env *env)
{
	char path[96], text[LOG_TAIL];
	size_t n;
	FILE *f;

	path_of(env, "log", path);
	f = fopen(path, "re");
	if (!f)
		return;
	if (fseek(f, -LOG_TAIL, SEEK_END) != 0)
		rewind(f);
	n = fread(text, 1, sizeof(text), f);
	fwrite(text, 1, n, stderr);
	fclose(f);
}

/* ---- processes ---------------------------------------------------------------------- */

/* The program `name` beside our own. */
static int sibling(const char *name, char out[512])
{
	ssize_t n = readlink("/proc/self/exe", out, 400);
	char *slash;

	if (n <= 0 || n >= 400)
		return bench_fail("cannot find this program's own directory");
	out[n] = '\0';
	slash = strrchr(out, '/');
	ASSERT(slash);
	snprintf(slash + 1, 100, "%s", name);
	return access(out, X_OK) == 0 ? 0 : bench_fail("%s: %s", out, strerror(errno));
}

/* In the child: it must not outlive us, nor get our terminal's signals before we have ended. */
static void become(const char *path, char *const argv[], pid_t parent, const char *log)
{
	int in = open("/dev/null", O_RDONLY), out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);

	(void)setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent || in < 0 || out < 0)
		_exit(126);
	dup2(in, 0);
	dup2(out, 1);
	dup2(out, 2);
	execv(path, argv);
	dprintf(2, "%s: %s\n", path, strerror(errno));
	_exit(127);
}

static int start(struct bench_env *env, const char *name, char *const argv[])
{
	char path[512], log[96];
	pid_t parent = getpid();

	path_of(env, "log", log);
	if (sibling(name, path))
		return 1;
	fflush(NULL);
	env->pid = fork();
	if (env->pid < 0) {
		env->pid = 0;
		return bench_fail("fork: %s", strerror(errno));
	}
	if (env->pid == 0)
		become(path, argv, parent, log);
	return 0;
}

/* 1 when the child has ended, its status then in *status; waits at most `wait_ns`. */
static int ended(struct bench_env *env, uint64_t wait_ns, int *status)
{
	uint64_t until = clock_now_ns() + wait_ns;

	for (;;) {
		pid_t pid = waitpid(env->pid, status, WNOHANG);

		if (pid == env->pid) {
			env->pid = 0;
			return 1;
		}
		if (clock_now_ns() >= until)
			return 0;
		sleep_ms(5);
	}
}

static int describe(const char *name, int status)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (WIFSIGNALED(status))
		return bench_fail("%s ended by signal %d", name, WTERMSIG(status));
	return bench_fail("%s ended with status %d", name, WEXITSTATUS(status));
}

static int run_tool(struct bench_env *env, char *const argv[])
{
	int status;

	if (start(env, "wekactl", argv))
		return 1;
	if (!ended(env, START_S * NS_PER_S, &status))
		return bench_fail("wekactl takes more than %d s", START_S);
	if (describe("wekactl", status) == 0)
		return 0;
	show_log(env);
	return 1;
}

/* A file: drive has no store on it yet; format refuses one that has. */
static int format_drive(struct bench_env *env)
{
	char *argv[] = { (char *)"wekactl", (char *)"format", (char *)(uintptr_t)env->conf->drive,
			 NULL };
	char path[256];

	if (strncmp(env->conf->drive, "file:", 5) != 0)
		return 0;
	snprintf(path, sizeof(path), "%.255s", env->conf->drive + 5);
	path[strcspn(path, "?")] = '\0';
	if (access(path, F_OK) != 0)
		memcpy(env->drive_file, path, sizeof(path));
	return run_tool(env, argv);
}

static int format_own_drives(struct bench_env *env)
{
	char conf[96];
	char *argv[] = { (char *)"wekactl",
			 (char *)"--config",
			 conf,
			 (char *)"format",
			 (char *)"--protect",
			 (char *)(uintptr_t)env->conf->protect,
			 NULL };

	path_of(env, "conf", conf);
	return run_tool(env, argv);
}

static int wait_until_it_answers(struct bench_env *env)
{
	struct weka_options o = { .size_bytes = sizeof(o),
				  .pool_bytes = PROBE_POOL,
				  .connect_timeout_ns = PROBE_WAIT_NS };
	uint64_t until = clock_now_ns() + START_S * NS_PER_S;
	struct weka_client *client;
	int err, status;

	do {
		err = weka_connect(env->address, &env->key, &o, &client);
		if (!err) {
			weka_close(client);
			return 0;
		}
		if (ended(env, 0, &status)) {
			show_log(env);
			return describe("weka-appliance", status) | 1;
		}
		if (bench_interrupted())
			return bench_fail("interrupted");
		sleep_ms(10);
	} while (clock_now_ns() < until && err != -EACCES && err != -EPROTO && err != -EINVAL);
	(void)bench_fail("%s does not answer: %s", env->address, weka_error(NULL));
	show_log(env);
	return 1;
}

static int start_appliance(struct bench_env *env)
{
	char conf[96];
	char *argv[] = { (char *)"weka-appliance", (char *)"--config", conf, NULL };

	if (make_dir(env) || write_key(env) || write_conf(env))
		return 1;
	if (env->conf->own_drives > 0 && !env->conf->own_memory && format_own_drives(env))
		return 1;
	if (env->conf->own_drives == 0 && format_drive(env))
		return 1;
	path_of(env, "conf", conf);
	if (start(env, "weka-appliance", argv))
		return 1;
	env->own[0] = env->address;
	env->where = env->own;
	env->count = 1;
	return wait_until_it_answers(env);
}

static int stop_appliance(struct bench_env *env)
{
	int status, err;

	kill(env->pid, SIGTERM);
	if (!ended(env, STOP_S * NS_PER_S, &status)) {
		kill(env->pid, SIGKILL);
		while (waitpid(env->pid, &status, 0) < 0 && errno == EINTR)
			;
		env->pid = 0;
		return bench_fail("weka-appliance did not stop within %d s of SIGTERM", STOP_S);
	}
	err = describe("weka-appliance", status);
	if (err)
		show_log(env);
	return err;
}

/* ---- what the workloads call ---------------------------------------------------------- */

int bench_env_open(struct bench_env **out, const struct bench_conf *conf)
{
	struct bench_env *env = calloc(1, sizeof(*env));

	*out = NULL;
	if (!env)
		return bench_fail("out of memory");
	env->conf = conf;
	bench_catch_signals();
	if (conf->connect_count > 0) {
		if (!conf->key_file) {
			free(env);
			return bench_fail("--connect needs --key FILE");
		}
		env->key.file = conf->key_file;
		env->where = conf->connect;
		env->count = conf->connect_count;
	} else if (start_appliance(env)) {
		(void)bench_env_close(env);
		return 1;
	}
	*out = env;
	return 0;
}

uint32_t bench_env_count(const struct bench_env *env)
{
	return env->count;
}

const char *bench_env_transport(const struct bench_env *env, uint32_t i)
{
	ASSERT(i < env->count);
	if (strncmp(env->where[i], "rdma:", 5) == 0)
		return "rdma";
	if (strncmp(env->where[i], "tls:", 4) == 0)
		return "tls";
	return strncmp(env->where[i], "shm:", 4) == 0 ? "shm" : "tcp";
}

int bench_env_pid(const struct bench_env *env)
{
	return (int)env->pid;
}

int bench_env_connect(struct bench_env *env, uint32_t i, const struct weka_options *options,
		      struct weka_client **out)
{
	struct weka_options o = *options;
	int err;

	ASSERT(i < env->count);
	o.lanes = env->conf->lanes;
	o.reconnect_ns = NS_PER_S; /* a longer break fails the run */
	err = weka_connect(env->where[i], &env->key, &o, out);
	return err ? bench_fail("%s: %s", env->where[i], weka_error(NULL)) : 0;
}

int bench_env_break_drive(struct bench_env *env, uint32_t drive)
{
	char path[96];

	own_drive(env, drive, path);
	return truncate(path, 0) == 0 ? 0 : bench_fail("%s: %s", path, strerror(errno));
}

int bench_env_reload(struct bench_env *env)
{
	char path[96];

	ASSERT(env->pid > 0);
	path_of(env, "conf", path);
	(void)unlink(path);
	if (write_conf(env))
		return 1;
	return kill(env->pid, SIGHUP) == 0 ? 0 : bench_fail("SIGHUP: %s", strerror(errno));
}

/* KiB behind `name` in /proc/PID/status; 0: it does not say. */
static uint64_t status_kib(const struct bench_env *env, const char *name)
{
	char path[64], line[256];
	unsigned long long kib = 0;
	size_t n = strlen(name);
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)env->pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, name, n) == 0 && sscanf(line + n, ": %llu", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib;
}

/* The bound of its account, KiB; 0: it does not say. */
static uint64_t account_kib(struct weka_client *client)
{
	static const char name[] = "\"at_most_bytes\":";
	uint64_t bytes = 0;
	char *text, *at;

	if (weka_status(client, &text))
		return 0;
	at = strstr(text, name);
	if (at)
		bytes = strtoull(at + sizeof(name) - 1, NULL, 10);
	free(text);
	return bytes >> 10;
}

void bench_env_tell_memory(const struct bench_env *env, struct weka_client *client, bool json)
{
	unsigned long long rss, most, locked, account;

	if (!env->pid)
		return;
	account = account_kib(client);
	rss = status_kib(env, "VmRSS");
	most = status_kib(env, "VmHWM");
	locked = status_kib(env, "VmLck") + status_kib(env, "VmPin");
	if (json)
		printf("{\"workload\":\"fair\",\"run\":\"memory\",\"resident_kib\":%llu,"
		       "\"resident_most_kib\":%llu,\"locked_kib\":%llu,\"account_kib\":%llu}\n",
		       rss, most, locked, account);
	else
		printf("memory   %llu MiB resident, %llu at most, %llu locked; its account allows "
		       "%llu, besides the drive %s\n",
		       rss >> 10, most >> 10, locked >> 10, account >> 10, env->conf->drive);
}

int bench_env_close(struct bench_env *env)
{
	int err = 0;

	if (!env)
		return 0;
	if (env->pid)
		err = stop_appliance(env);
	if (env->dir[0])
		remove_dir(env);
	if (env->drive_file[0])
		(void)unlink(env->drive_file);
	explicit_bzero(env->secret, sizeof(env->secret));
	free(env);
	return err;
}

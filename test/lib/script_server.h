/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * An appliance that does as it is told: the fabric's server end in a thread, before a few
 * files in memory.  For tests of the client library: it checks the checksums that the library
 * makes, and lies, stays silent or goes away when a test wants that.
 *
 * Its world is one directory of regular files, symlinks and empty directories.  It outlives
 * script_stop(), so that a test can take the appliance away and bring it back.
 */
#ifndef TEST_SCRIPT_SERVER_H
#define TEST_SCRIPT_SERVER_H

#include "fabric/fab.h"

#include <pthread.h>
#include <stdatomic.h>

#define SCRIPT_FILES_MAX 1024
#define SCRIPT_CORES_MAX 4

struct script_file {
	char *name; /* NULL: free */
	char *bytes;
	uint64_t size_bytes;
	uint32_t mode; /* with S_IFMT */
	uint32_t uid;
	uint32_t gid;
	int64_t mtime_ns;
	bool hidden; /* between PUT_BEGIN and PUT_COMMIT */
};

struct script {
	/* The test's to set at any time. */
	_Atomic uint32_t lies;        /* so many blocks will be sent with a bit flipped           */
	_Atomic uint64_t silent;      /* bit t: requests of type t are not answered               */
	_Atomic uint32_t put_off;     /* so many requests will be told to come again ...          */
	_Atomic uint32_t put_off_ms;  /* ... after so long                                        */
	_Atomic uint64_t cannot_tell; /* by FAB_ type: are answered so, PROTOCOL.md 5           */
	_Atomic bool deaf_to_cancels; /* ... not even when they are cancelled                     */
	_Atomic uint64_t forgotten; /* its clients are told so from the next start on            */

	/* An address to listen at from now on: NULL once it is done. */
	const char *_Atomic listen_too;

	/* The server's to count. */
	_Atomic uint64_t seen[FAB_TYPE_END];
	_Atomic uint64_t cancels;
	_Atomic uint64_t change; /* number of the change that came last, and how it came: */
	_Atomic bool change_again, change_sure;
	_Atomic uint64_t sessions;
	_Atomic uint32_t held; /* requests that it is silent about */

	struct fab_server_cfg cfg; /* set before script_start(), after script_init() */
	char address[128];         /* of the running server, with its port */

	struct script_file files[SCRIPT_FILES_MAX];
	struct fab_server *server;                 /* core 0's */
	struct fab_server *core[SCRIPT_CORES_MAX]; /* cfg.core_count of them, in one thread */
	struct fab_req *held_req[1024];
	pthread_t thread;
	_Atomic bool quit;
	uint32_t generation; /* different sockets for different runs of one test */
	int port_fd; /* bound to the port of `address`, so that it is free for a restart; or -1 */
};

/* No files, no knobs, a key "weka" of 32 bytes of 7. */
void script_init(struct script *s);
void script_destroy(struct script *s);

/* Listen at `address` ("shm": a socket of its own, "tcp": a free port) and serve. */
void script_start(struct script *s, const char *address);
/* Close all sessions at once, whatever they wait for. */
void script_stop(struct script *s);
/* The same address again: what is in s->address. */
void script_restart(struct script *s);

/* A file of bytes that depend on its name and their place: script_byte(). */
void script_add(struct script *s, const char *name, uint64_t size_bytes);
const struct script_file *script_find(const struct script *s, const char *name);
unsigned char script_byte(const char *name, uint64_t at);

#endif

/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Sockets, and the network between them, in memory and in simulated time: what a kernel gives the
 * fabric and the client library, so that both run as shipped - fab_tcp.c, hello, epoll, sleep - in
 * one thread, from a seed.
 *
 *   host 1 (10.0.0.1)          host 5 (10.0.0.5)
 *     listener  stream <======== flow ======== stream     in order; pieces of any size, each with
 *        |        |    ======== flow ========>   |        its own delay; held up by a partition
 *        epoll ---+                              +--- epoll
 *
 * A program that links this is linked with the flags of sim_sock_ldflags in test/test.mk: the calls
 * socket, send, epoll_wait, ... of everything in it come here.  Descriptors that are not ours go to
 * the system.  clock_now_ns() is the simulated time.
 *
 * These are as in Linux: order and no loss within a connection while it lives; data before the
 * reset that follows it; a reset in answer to a segment of an unknown connection; TCP_USER_TIMEOUT
 * and keepalive, as set, end a connection whose peer cannot be reached; edge-triggered epoll, which
 * forgets closed descriptors; the lowest free descriptor is the next.
 */
#ifndef SIM_SOCK_H
#define SIM_SOCK_H

#include "base/list.h"
#include "base/rand.h"

#include <stdbool.h>
#include <stdint.h>

#define SIM_HOSTS_MAX 16u
#define SIM_NO_TIME   UINT64_MAX

struct sim_sock;

/* A network beside others, each with its own time and descriptors; calls go to the one in use. */
struct sim_sock *sim_sock_new(void);
void sim_sock_free(struct sim_sock *net);
void sim_sock_use(struct sim_sock *net);

/* Begins with an empty network.  poll() calls `idle` while it waits: it lets time pass. */
void sim_sock_begin(uint64_t seed, void (*idle)(void));
/* Gives back everything; returns how many descriptors were still open. */
uint32_t sim_sock_end(void);

/* The time goes on to `now_ns`: what is due happens. */
void sim_sock_time(uint64_t now_ns);
/* When something happens next by itself. */
uint64_t sim_sock_next(void);
/* Returns true if a thread that sleeps on this descriptor of ours would be woken. */
bool sim_sock_readable(int fd);
/* Something has come for the host that it has not read. */
bool sim_sock_unread(uint32_t host);
/* Somebody is in a call that waits: looking at the clock lets time pass, too. */
void sim_sock_waits(bool waits);
/* Descriptors that are made from now on are this host's (10.0.0.HOST). */
void sim_sock_as(uint32_t host);

/* 10.0.0.ADDRESS, which no host has, is a further address of `host`, over a link of its own: it can
 * be partitioned alone. */
void sim_sock_alias(uint32_t address, uint32_t host);

/* Its process dies: the kernel closes what it had.  Calls on it fail from now on, but for close. */
void sim_sock_kill(uint32_t host);
/* Its power fails: nobody is told.  With the power back it resets connections that it does not
 * know. */
void sim_sock_power(uint32_t host, bool on);
/* While *fails it sends nothing: until the simulation of its power calls sim_sock_power(). */
void sim_sock_fails(uint32_t host, const bool *fails);
/* Nothing gets to the address, or from it, or both, until then; it is late, not lost. */
void sim_sock_partition(uint32_t host, bool to, bool from, uint64_t until_ns);
/* Connections to it are refused until then. */
void sim_sock_refuse(uint32_t host, uint64_t until_ns);
/* The usual delay of segments from and to it; each flow is slower than that at times. */
void sim_sock_delay(uint32_t host, uint64_t delay_max_ns);

/*
 * Cuts one of the host's connections, chosen by the seed: in each direction any number of the bytes
 * in transit arrives, then a reset; at one of the ends perhaps not before `late_ns`.  Returns false
 * if the host has no connection.
 */
bool sim_sock_cut(uint32_t host, uint64_t late_ns);

/* Returns true if a connection of `host` is still served although the host has given it up. */
bool sim_sock_lingers(uint32_t host);

struct sim_sock_stat {
	uint64_t connections, refused, cuts, resets, timeouts, segments, bytes, full, partitions;
};
extern struct sim_sock_stat sim_sock_stat;

#endif

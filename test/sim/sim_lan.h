/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A network of sockets for a simulated world, in its time and without system calls, which over
 * shared memory are most of the cost of a power cut.  Link programs that use it with
 * sim_sock_ldflags (test/test.mk). */
#ifndef SIM_LAN_H
#define SIM_LAN_H

#include "test/sim/sim_world.h"

extern const struct sim_lan sim_lan_sockets;

#endif

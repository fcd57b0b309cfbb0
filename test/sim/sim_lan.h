/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* A network of sockets for a simulated world, of its own and in its time: no call of the system,
 * which is most of what a power cut costs over shared memory.  Who links this is linked with
 * sim_sock_ldflags (test/test.mk). */
#ifndef SIM_LAN_H
#define SIM_LAN_H

#include "test/sim/sim_world.h"

extern const struct sim_lan sim_lan_sockets;

#endif

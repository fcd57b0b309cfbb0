/* SPDX-License-Identifier: BSD-2-Clause-Patent */
#include "test/sim/drive_scenario.h"
#include "base/clock.h"

const char *const drive_trigger_name[DRIVE_TRIGGERS] = {
	"nothing",    "lost completions", "late completions", "any status", "twice",
	"unknown id", "another queue",    "fatal status",     "all ones",   "wanted back",
	"gone",       "deaf admin queue", "namespace",        "bus error",
};

static uint32_t pick(struct rand_state *r, uint32_t bound)
{
	return (uint32_t)rand_below(r, bound);
}

static void pick_stop(struct drive_scenario *s, struct rand_state *r)
{
	struct nvme_faults *c = &s->ctrl;

	s->can_stop = true;
	c->has_reset = pick(r, 2);
	c->reset_tries = pick(r, 3) ? 0 : pick(r, 5);
	c->has_bus_master = pick(r, 2);
	c->has_release = pick(r, 2);
	c->release_stops = c->has_release && pick(r, 2);
	if (pick(r, 3))
		return;
	c->stuck_ready = true;
	c->reset_fails = pick(r, 2);
	c->bus_master_fails = pick(r, 2);
	s->can_stop = c->has_reset && !c->reset_fails;
}

static void pick_rise(struct drive_scenario *s, struct rand_state *r)
{
	s->can_rise = true;
	if (pick(r, 4))
		return;
	s->ctrl.slow_up = pick(r, 2) ? 1 : 5;
	s->can_rise = false; /* before anybody is told that it is away */
}

/* Decides how the drive must end, where that is certain. */
static void judge(struct drive_scenario *s)
{
	bool registers = s->trigger == DRIVE_ONES || s->trigger == DRIVE_GONE;
	bool plain = s->trigger == DRIVE_FATAL || s->trigger == DRIVE_BUS;

	s->fatal = s->trigger == DRIVE_REQUEST ||
		   (registers && (!s->ctrl.has_reset || s->ctrl.reset_fails)) ||
		   ((plain || s->trigger == DRIVE_NAMESPACE) && !s->can_stop);
	s->stays_away = s->trigger == DRIVE_NAMESPACE && !s->fatal && !s->returns;
	s->harmless = s->trigger == DRIVE_NOTHING || s->trigger == DRIVE_STATUS ||
		      (s->trigger == DRIVE_NAMESPACE && s->returns && !s->fatal) ||
		      (s->can_stop && (plain || (registers && !s->fatal)));
	s->invisible = s->harmless && s->can_rise && !s->ctrl.stuck_ready &&
		       s->trigger != DRIVE_STATUS && s->trigger != DRIVE_NAMESPACE &&
		       !s->ctrl.reset_restarts;
}

void drive_scenario_pick(struct drive_scenario *s, struct rand_state *r)
{
	*s = (struct drive_scenario){ .trigger = pick(r, DRIVE_TRIGGERS) };
	s->at_ns = rand_below(r, 5 * NS_PER_MS);
	s->sim.delay_max_ns = 1 + rand_below(r, 200000);
	s->sim.ignore_aborts = pick(r, 2);
	pick_stop(s, r);
	pick_rise(s, r);
	s->returns = pick(r, 2);
	switch (s->trigger) {
	case DRIVE_LOSE:
		s->sim.lose_ppm = pick(r, 2) ? 20000 : 300000;
		break;
	case DRIVE_STATUS:
		s->sim.status_ppm = 200000;
		break;
	case DRIVE_TWICE:
		s->ctrl.twice_ppm = 50000;
		break;
	case DRIVE_UNKNOWN:
		s->ctrl.unknown_ppm = 50000;
		break;
	case DRIVE_QUEUE:
		s->ctrl.queue_ppm = 50000;
		break;
	case DRIVE_FATAL:
		s->ctrl.fatal = true;
		break;
	case DRIVE_ONES:
		s->ctrl.gone = true;
		break;
	case DRIVE_REQUEST:
		s->ctrl.alarms = NVME_ALARM_REQUEST;
		break;
	case DRIVE_BUS:
		s->ctrl.alarms = NVME_ALARM_ERROR;
		break;
	case DRIVE_GONE:
		s->ctrl.gone = true;
		s->ctrl.alarms = NVME_ALARM_GONE;
		s->ctrl.reset_restarts = pick(r, 2);
		break;
	case DRIVE_DEAF:
		s->ctrl.deaf = 1 + pick(r, 3);
		s->ctrl.fatal = false;
		s->sim.lose_ppm = 50000; /* so that there are aborts to be deaf for */
		break;
	default:
		break;
	}
	judge(s);
}

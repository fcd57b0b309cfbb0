/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* FAB_REPORT: the state of a client's job, by its own account.  The session keeps the last one. */
#include "appliance/core/app_op.h"

int app_report_take(struct app_op *op)
{
	struct app_session *of = op->session;
	struct fab_report report;
	int err = fab_report_parse(&report, op->req->args.report.body);

	ASSERT(op->req->type == FAB_REPORT && of->fab);
	if (err)
		return err;
	of->report = report;
	of->report_ns = op->core->now_ns;
	return 0;
}

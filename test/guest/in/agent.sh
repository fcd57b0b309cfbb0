# SPDX-License-Identifier: BSD-2-Clause-Patent
# shellcheck shell=sh
# Executes the host's commands, one after the other (at() of test/guest/lib.sh).  The number of the next
# command comes over the second serial line, so that waiting for it takes no CPU time.
. test/e2e/lib.sh
. test/guest/in/verbs.sh

busybox stty -F /dev/ttyS1 -echo
exec 3</dev/ttyS1
: >/out/listens
while read -r number <&3; do
	. "/out/ask.$number" >/out/answer 2>&1
	echo "$number $?" >/out/answered
done

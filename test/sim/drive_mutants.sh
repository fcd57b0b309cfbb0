#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Takes out one rule at a time of what is done when a drive goes wrong, and runs test/sim/drive.c:
# each must make it fail.  usage: test/sim/drive_mutants.sh [NAME...]     RUNS=3000 seeds each
# Results in test/PROOF.md.
cd "$(dirname "$0")/../.." || exit 1
: "${RUNS:=3000}"
if [ -z "${TREE:-}" ]; then # given: it is kept, and what was built there used again
	TREE=$(mktemp -d "${TMPDIR:-/tmp}/weka-mutant.XXXXXX")
	trap 'rm -rf "$TREE"' EXIT
fi
trap 'exit 130' INT TERM
mkdir -p "$TREE/src"
git ls-files Makefile base nvme meta fabric client-lib appliance bench test |
	while read -r f; do # only what differs: a time of its own makes make compile it
		cmp -s "$f" "$TREE/src/$f" || cp --parents -t "$TREE/src" "$f"
	done
PROGRAM=$TREE/build/sim/test/sim/drive
survivors=0

build() {
	make -s -C "$TREE/src" BUILD="$TREE/build" VARIANT=sim "$PROGRAM" EXTRA_CFLAGS="-Wno-error" \
		>"$TREE/log" 2>&1
}

# mutant NAME FILE OLD NEW: OLD stands there once.
mutant() {
	name=$1 file=$2 old=$3 new=$4
	case " $wanted " in "  " | *" $name "*) ;; *) return ;; esac
	cp "$TREE/src/$file" "$TREE/original"
	if ! OLD=$old NEW=$new perl -0pi -e '
		my ($o, $n) = ($ENV{OLD}, $ENV{NEW});
		my $count = () = /\Q$o\E/g;
		exit 1 if $count != 1;
		s/\Q$o\E/$n/' "$TREE/src/$file"; then
		echo "not ok $name: $file does not have this once: $old"
		survivors=$((survivors + 1))
	elif ! build; then
		echo "not ok $name: does not build"
		tail -5 "$TREE/log"
		survivors=$((survivors + 1))
	elif timeout 600 "$PROGRAM" --runs "$RUNS" >"$TREE/log" 2>&1; then
		echo "not ok $name: survived"
		survivors=$((survivors + 1))
	else
		echo "ok $name: found ($(grep -m1 -E 'not ok|ssert' "$TREE/log" | cut -c1-120))"
	fi
	cp "$TREE/original" "$TREE/src/$file" # with a new time: it is compiled anew
}

wanted="$*"
build || { cat "$TREE/log"; exit 1; }
# The order of a reset.
mutant returned-before-disabled nvme/driver/nvme_reset.c \
	'	if (!err && csts != NVME_CSTS_GONE && !(csts & NVME_CSTS_RDY))' \
	'	if (!err && csts != NVME_CSTS_GONE)'
mutant returned-before-deleted nvme/driver/nvme_reset.c \
	'	r->next_sq = true;
	enter(drive, NVME_DELETING, now_ns, drive->timeout_ns);' \
	'	r->stopped = true;
	order(drive, NVME_ORDER_RETURN);
	enter(drive, NVME_RETURNING, now_ns, 0);'
mutant acknowledge-skipped nvme/driver/nvme_reset.c \
	'if (!all_obeyed(drive, NVME_ORDER_STOP) &&' 'if (false &&'
mutant made-before-all-are-back nvme/driver/nvme_reset.c \
	'	if (!all_obeyed(drive, NVME_ORDER_RETURN))
		return false;' ''
# Controllers that nothing stops.
mutant no-quarantine nvme/driver/nvme_reset.c 'r->quarantine = !cut_off;' 'cut_off = true;'
mutant release-believed nvme/driver/nvme_reset.c \
	'cut_off |= r->released && ops->release_stops;' 'cut_off = true;'
mutant reset-believed nvme/driver/nvme_reset.c \
	'if (err || csts == NVME_CSTS_GONE || csts & NVME_CSTS_RDY) {' 'if (false) {'
mutant not-cut-off-at-the-request nvme/driver/nvme_reset.c \
	'	if (r->cause == NVME_CAUSE_REQUEST)
		release(drive);' \
	'	if (r->cause == NVME_CAUSE_REQUEST) {
		release(drive);
		return;
	}'
# Coming back.
mutant another-drive-accepted nvme/driver/nvme_reset.c \
	'nvme__up_begin(&drive->up, drive, true,' 'nvme__up_begin(&drive->up, drive, false,'
mutant cache-believed nvme/driver/nvme_reset.c \
	'		nvme__cached_count(ns) >' '		0 >'
mutant flush-covers-what-came-after nvme/driver/nvme_qpair.c \
	'		was = atomic_load_explicit(flushed, memory_order_relaxed);' \
	'		was = atomic_load_explicit(flushed, memory_order_relaxed);
		atomic_store(flushed, nvme__cached_count(qp->ns));'
mutant cached-writes-not-counted nvme/driver/nvme_qpair.c \
	"io->op != NVME_DEALLOCATE && !io->fua" "io->op == NVME_ZERO && !io->fua"
mutant no-second-attempt nvme/driver/nvme_reset.c \
	'	r->stopped = false;
	stop_controller(drive, now_ns);
}' '	r->dead = true;
	stop_controller(drive, now_ns);
}'
mutant away-in-silence nvme/driver/nvme_reset.c \
	'atomic_store_explicit(&r->away, true, memory_order_relaxed);' ''
mutant away-for-good nvme/driver/nvme_reset.c \
	'	atomic_store_explicit(&r->away, false, memory_order_relaxed);' ''
mutant rings-not-as-new nvme/driver/nvme_qpair.c \
	'	nvme__rings_init(&qp->rings, qp->mem.addr, qp->rings.depth);' ''
mutant died-in-silence nvme/driver/nvme_reset.c \
	'	nvme__tell(drive, "given up%s%s"' '	if (false) nvme__tell(drive, "given up%s%s"'
# The queue pair.
mutant rings-after-it-obeyed nvme/driver/nvme_qpair.c \
	'	case NVME_ORDER_STOP:
		qp->state = NVME_QP_HALTED;' \
	'	case NVME_ORDER_STOP:
		qp->state = NVME_QP_LIVE;'
mutant returned-twice nvme/driver/nvme_qpair.c \
	'	slot->io = NULL;
	atomic_store' \
	'	if (io->status != -ECANCELED)
		slot->io = NULL;
	atomic_store'
mutant some-not-returned nvme/driver/nvme_qpair.c \
	'for (uint32_t i = 0; i + 1 < qp->rings.depth && done_count' \
	'for (uint32_t i = 0; i + 2 < qp->rings.depth && done_count'
mutant no-turn-in-ids nvme/nvme_internal.h \
	'#define NVME_CID_NEXT(cid) (((cid) + (1u << NVME_CID_SLOT_BITS)) & 0xffffu)' \
	'#define NVME_CID_NEXT(cid) (cid)'
mutant unknown-id-ignored nvme/driver/nvme_qpair.c \
	'	atomic_store_explicit(&qp->complaint, (uint32_t)what << 16 | cid, memory_order_relaxed);' ''
mutant queue-of-a-completion-ignored nvme/driver/nvme_qpair.c \
	'if (unlikely(cqe->sq_id.raw != qp->qid)) {' 'if (false) {'
mutant retry-of-what-is-quarantined nvme/driver/nvme_qpair.c \
	'by_reset && !reset->dead, 0);' 'by_reset, 0);'
mutant no-retry nvme/driver/nvme_qpair.c 'by_reset && !reset->dead, 0);' 'false, 0);'
mutant dead-takes-io nvme/driver/nvme_qpair.c \
	'	case NVME_QP_DEAD:
		return -ENODEV;' \
	'	case NVME_QP_DEAD:
		return -EAGAIN;'
mutant failed-read-is-fine nvme/driver/nvme_status.c \
	'{ NVME_SC_ABORT_REQUESTED, -ECANCELED,' '{ NVME_SC_ABORT_REQUESTED, 0,'
# The watch.
mutant fatal-status-ignored nvme/driver/nvme_watch.c '	else if (csts & NVME_CSTS_CFS)' '	else if (false)'
mutant no-timeouts nvme/driver/nvme_watch.c \
	'		} else if (age >= NVME_TICKS && drive->reset.life == NVME_LIVE) {' \
	'		} else if (false) {'
mutant no-escalation nvme/driver/nvme_watch.c 'if (age >= HELPLESS &&' 'if (false &&'
mutant alarm-ignored nvme/driver/nvme_watch.c 'if (bits & NVME_ALARM_REQUEST)' 'if (false)'
mutant admin-deadlines-ignored nvme/driver/nvme_reset.c \
	'if (cmd->state == NVME_ADMIN_FLYING && now_ns >= cmd->deadline_ns)' 'if (false)'
[ $survivors = 0 ]

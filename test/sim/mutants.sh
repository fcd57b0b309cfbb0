#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Takes out one flush, FUA or ordering rule at a time, and runs the simulation: each must make it
# fail.  A rule that nothing notices is either not tested or not needed.
# usage: test/sim/mutants.sh [NAME...]     CUTS=20000 power cuts each at most; results in test/PROOF.md
cd "$(dirname "$0")/../.." || exit 1
: "${BUILD:=build}" "${CUTS:=20000}"
TREE=$(mktemp -d "${TMPDIR:-/tmp}/weka-mutant.XXXXXX")
trap 'rm -rf "$TREE"' EXIT
trap 'exit 130' INT TERM
survivors=0

simulate() { # PROGRAM OPTION...
	simulated=$1
	shift
	timeout 1800 "$TREE/build/sim/test/sim/$simulated" "$@" >"$TREE/log" 2>&1
}

# mutant NAME FILE OLD NEW: OLD is one line's text, and stands there once.
mutant() {
	name=$1 file=$2 old=$3 new=$4
	case " $wanted " in "  " | *" $name "*) ;; *) return ;; esac
	rm -rf "$TREE/src"
	mkdir -p "$TREE/src"
	git ls-files -z | xargs -0 cp --parents -t "$TREE/src"
	if ! OLD=$old NEW=$new perl -0pi -e '
		my ($o, $n) = ($ENV{OLD}, $ENV{NEW});
		my $count = () = /\Q$o\E/g;
		exit 1 if $count != 1;
		s/\Q$o\E/$n/' "$TREE/src/$file"; then
		echo "not ok $name: $file does not have this line once: $old"
		survivors=$((survivors + 1))
		return
	fi
	if ! make -s -C "$TREE/src" BUILD="$TREE/build" VARIANT=sim "$TREE/build/sim/test/sim/sim" \
		"$TREE/build/sim/test/sim/crowd" "$TREE/build/sim/test/sim/press" \
		"$TREE/build/sim/test/sim/chop" EXTRA_CFLAGS="-Wno-error" >"$TREE/log" 2>&1; then
		echo "not ok $name: does not build"
		tail -5 "$TREE/log"
		survivors=$((survivors + 1))
		return
	fi
	if simulate sim --cuts "$CUTS" && simulate crowd && simulate press && simulate chop; then
		echo "not ok $name: survived"
		survivors=$((survivors + 1))
	else
		echo "ok $name: found by $simulated ($(grep -m1 -E 'not ok|assert' "$TREE/log" | cut -c1-120))"
	fi
}

wanted="$*"
mutant log-without-fua meta/meta_log.c \
	'.op = META_IO_WRITE, .fua = true, .buf = buf' '.op = META_IO_WRITE, .fua = false, .buf = buf'
mutant log-without-data-flush meta/meta_log.c \
	'if (!(b->drives_mask >> (d % 64) & 1) || !m->conf.drive[d].volatile_cache)' 'if (d < 64)'
mutant acknowledged-before-written meta/meta_log.c \
	'if (b->state != LOG_DURABLE)
			break;' \
	'if (b->state != LOG_DURABLE && b->state != LOG_WRITING)
			break;'
mutant checkpoint-without-flush meta/meta_ckpt.c \
	'if (!m->conf.drive[d].volatile_cache)' 'if (d < META_DRIVES_MAX)'
mutant root-without-fua meta/meta_ckpt.c 'r->io.io.fua = true;' 'r->io.io.fua = false;'
mutant zone-header-without-fua meta/meta_zone.c 'io->x.io.fua = true;' 'io->x.io.fua = false;'
mutant root-before-its-log meta/meta_ckpt.c \
	'if (meta__cache_frozen_count(m) == 0 && meta__log_durable(m) >= c->log_seq)' \
	'if (meta__cache_frozen_count(m) == 0)'
mutant trimmed-before-the-roots meta/meta_ckpt.c \
	'c->stage = CKPT_PAGES;' 'c->stage = CKPT_PAGES; if (meta__log_durable(m) >= c->log_seq) meta__log_trim(m, c->log_seq);'
mutant zone-reused-before-the-roots meta/meta_zone.c \
	'list_push_back(&z->frozen, &at->link);' \
	'at->state = ZONE_LEAVING; z->coming--; list_push_back(&z->leaving, &at->link);'
mutant zone-reused-before-the-freeze meta/meta_zone.c \
	'list_push_back(&m->zones->empty, &at->link);
	m->zones->coming++;' \
	'at->state = ZONE_LEAVING; at->left = 0; list_push_back(&m->zones->leaving, &at->link);'
mutant reply-before-durable meta/meta_op.c \
	'return seq <= meta__log_durable(m);' 'return seq <= meta__log_last(m);'
mutant reader-told-before-durable appliance/app_core.c \
	'if (likely(meta_is_durable(core->meta, op->seen_seq)))' 'if (true)'
mutant zone-reused-under-a-reader meta/meta_zone.c \
	'if (at->left >= z->epoch_oldest)' 'if (false)'
mutant root-overwrites-the-current-slot meta/meta_super.c \
	'uint32_t slot = s->root_slot ^ 1;' 'uint32_t slot = s->root_slot;'
[ $survivors = 0 ]

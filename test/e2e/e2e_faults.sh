#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Clients append numbered records and read what they know (test/tools/fault_client.c) while the
# appliance is killed and started again, or they are, or their connections are cut, fall silent, or
# lose their link for 5 s: they go on by themselves; no acknowledged record is lost and none stands
# there twice; nothing is written into a window that was given back (WEKA_POISON_WINDOWS); and what
# only a session or a running request holds is as before.
#
#    this network                        one more for each kind of fault
#    10.9.1.1 cut    ------- link -------  eth0 10.9.1.2   sockets are destroyed: both ends see a reset
#    10.9.2.1 silent ------- link -------  eth0 10.9.2.x   the address goes away: neither end hears a thing
#    10.9.3.1 link   ------- link -------  eth0 10.9.3.2   the link is down for 5 s
#    the appliance
cd "$(dirname "$0")/../.." || exit 1
# A network of our own: as root, or as an ordinary user who may have one.
if [ -z "${FAULTS_NET:-}" ]; then
	for unshare in "unshare -n" "unshare -rn"; do
		$unshare true 2>/dev/null && exec env FAULTS_NET=1 $unshare "$0"
	done
fi
. test/e2e/lib.sh

rounds=2 silences=1
[ "${TEST_LENGTH:-short}" = short ] || FAULT_COUNT=${FAULT_COUNT:-20}
[ -z "${FAULT_COUNT:-}" ] || rounds=$FAULT_COUNT silences=$FAULT_COUNT
: "${FAULTS:=die cut silent link}" # and so often each: FAULT_COUNT
CLIENT=$(dirname "$BIN")/test/tools/fault_client
D0=file:$DIR/d0?size=512M D1=file:$DIR/d1?size=512M
: "${APP_CORES:=4}"
KINDS=
for kind in cut silent link; do case " $FAULTS " in *" $kind "*) KINDS="$KINDS $kind" ;; esac; done
at_exit() { # what this shell began; in a subshell, $(jobs -p), it would have begun nothing
	jobs -p >"$DIR/jobs"
	while read -r job; do kill -9 "$job" 2>/dev/null; done <"$DIR/jobs"
	cleanup
}
trap at_exit EXIT

# ---- links ---------------------------------------------------------------------------------------

# link_make NUMBER KIND: a network with one address, behind a link; its process is in $DIR/KIND.net.
link_make() {
	unshare -n sleep 86400 &
	echo $! >"$DIR/$2.net"
	n=0
	until [ "$(readlink /proc/$!/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do
		n=$((n + 1))
		[ $n -lt 3000 ] || return 1
		sleep 0.02
	done
	ip link add name "to-$2" type veth peer name eth0 netns $! && ip addr add "10.9.$1.1/24" dev "to-$2" &&
		ip link set "to-$2" up && inside "$2" ip link set lo up &&
		inside "$2" ip addr add "10.9.$1.2/24" dev eth0 && inside "$2" ip link set eth0 up
}
inside() { # KIND COMMAND...
	net=$(cat "$DIR/$1.net")
	shift
	nsenter -t "$net" -n "$@"
}
links_make() {
	ip link set lo up && link_make 1 cut && link_make 2 silent && link_make 3 link
}
way_to() { # KIND: the appliance's address
	case $1 in cut) n=1 ;; silent) n=2 ;; link) n=3 ;; esac
	echo "tcp://10.9.$n.1:$PORT"
}

# ---- clients ---------------------------------------------------------------------------------------

# Prints the resources that only sessions and running requests hold: they must be the same afterwards.
held() {
	ctl --json status | tr ',{' '\n\n' |
		sed -n 's/^ *"\(sessions_open\|staging_used_bytes\|ops_free\)": *\([0-9]*\).*/\1 \2/p' | tr '\n' ' '
	echo "descriptors $(find "/proc/$DAEMON/fd" | wc -l)"
}
# At rest: a block that the scrub is reading holds an operation and staging, for a moment.  The last
# client, too, is gone only when the appliance has seen its end.
held_now() {
	for _ in $(seq 600); do
		case $(held) in *"sessions_open 1 "*) break ;; esac
		sleep 0.1
	done
	for _ in $(seq 20); do held; sleep 0.02; done | sort -k2,2nr -k4,4n | head -1
}
# The connection of wekactl itself may still have a descriptor, or not: there may be fewer than before.
held_is() { # NAME BEFORE
	n=0
	until now=$(held 2>&1) && [ "${now% *}" = "${2% *}" ] && [ "${now##* }" -le "${2##* }" ] || [ $n -gt 1200 ]; do n=$((n + 1)); sleep 0.1; done
	echo "$2" | grep -q "sessions_open .* descriptors [1-9]" || not_ok "$1: what is held is not known" "$2"
	[ $n -le 1200 ] && ok "$1: sessions, staging, operations and descriptors are as before" ||
		not_ok "$1: $now" "$2 before"
}
client_start() { # NAME ADDRESS [COMMAND...]
	name=$1 address=$2
	shift 2
	: >"$DIR/$name.said"
	"$@" "$CLIENT" "$address" "$DIR/key" "/$name" >"$DIR/$name.said" 2>"$DIR/$name.err" &
	client=$!
}
verified() { "$CLIENT" "$SHM" "$DIR/key" "/$1" verify "$DIR/$1.said"; }
acknowledged() { grep -c ' 0$' "$DIR/$1.said"; }
goes_on() { # NAME: more is acknowledged than was
	was=$(acknowledged "$1") n=0
	until [ "$(acknowledged "$1")" -gt $((was + 50)) ]; do
		n=$((n + 1))
		[ $n -lt 1800 ] && kill -0 $client 2>/dev/null || return 1
		sleep 0.1
	done
}
# ends_well NAME ROUNDS: it stops when told, with all of its leases back; what it was told is so.
ends_well() {
	kill $client
	wait $client || { echo "the client failed: $(cat "$DIR/$1.err")"; return 1; }
	verified "$1" || return 1
	unknown=$(grep -c -v ' 0$' "$DIR/$1.said")
	[ "$unknown" -le $(($2 * 2)) ] || { echo "$unknown records are of unknown outcome"; return 1; }
	grep -q '^# [1-9][0-9]* reads compared, [1-9]' "$DIR/$1.err" || { echo "no reads: $(cat "$DIR/$1.err")"; return 1; }
}

# ---- the two ends die ------------------------------------------------------------------------------

appliance_dies() { # WAY ADDRESS
	client_start "appliance-$1" "$2"
	bad=
	for round in $(seq $rounds); do
		goes_on "appliance-$1" || bad="before kill $round"
		crash
		start || bad="start after kill $round"
	done
	goes_on "appliance-$1" || bad="after the last"
	[ -z "$bad" ] && ok "$1: the appliance was killed $rounds times, and the client went on" ||
		not_ok "$1: the client goes on: $bad" "$(cat "$DIR/appliance-$1.err")"
	check "$1: each acknowledged record is there, none twice; hardly one is of unknown outcome" \
		ends_well "appliance-$1" "$rounds"
}
clients_die() { # WAY ADDRESS
	before=$(held_now) bad=
	for round in $(seq $rounds); do
		client_start "client-$1-$round" "$2"
		goes_on "client-$1-$round" || bad="client $round"
		kill -9 $client
		wait $client 2>/dev/null
		verified "client-$1-$round" >"$DIR/check.out" 2>&1 || bad="$(cat "$DIR/check.out")"
	done
	[ -z "$bad" ] && ok "$1: $rounds clients were killed, and what they had been told is so" ||
		not_ok "$1: clients are killed: $bad"
	held_is "$1" "$before"
}

# ---- what is between them --------------------------------------------------------------------------

# Both ends of one connection, or of all, are reset.
fault_cut() {
	all=$(inside cut ss -Htn state established dport = ":$PORT")
	[ -n "$all" ] || return 1
	if [ $(($1 % 2)) = 0 ]; then
		inside cut ss -K dport = ":$PORT" >/dev/null 2>&1
	else
		local_port=$(echo "$all" | head -n 1 | awk '{ print $3 }' | sed 's/.*://')
		inside cut ss -K sport = ":$local_port" >/dev/null 2>&1
	fi
}
# The connections stay where they were; the address is another.
fault_silent() {
	inside silent ip addr del "10.9.2.$((1 + $1))/24" dev eth0 &&
		inside silent ip addr add "10.9.2.$((2 + $1))/24" dev eth0
}
fault_link() {
	ip link set to-link down && sleep 5 && ip link set to-link up
}
# In a shell of its own, and told to stop by nobody but itself.
outlives() { # KIND ROUNDS
	client_start "$1" "$(way_to "$1")" nsenter -t "$(cat "$DIR/$1.net")" -n
	for round in $(seq "$2"); do
		goes_on "$1" || { echo "before $1 $round: $(cat "$DIR/$1.err")"; return 1; }
		"fault_$1" "$round" || { echo "no $1 $round"; return 1; }
	done
	goes_on "$1" || { echo "after the last $1: $(cat "$DIR/$1.err")"; return 1; }
	ends_well "$1" "$2"
}
began_again() { # KIND ROUNDS: how often the client had to; a lane alone, or the session
	awk -v least="$2" '/^#/ { n = $8 + $10 } END { exit !(n >= least) }' "$DIR/$1.err"
}
count_of() { [ "$1" = silent ] && echo $silences || echo $rounds; }
networks_fail() {
	before=$(held_now)
	for kind in $KINDS; do
		{ outlives $kind "$(count_of $kind)" >"$DIR/$kind.out" 2>&1; echo $? >"$DIR/$kind.code"; } &
		eval "job_$kind=$!"
	done
	for kind in $KINDS; do
		eval "wait \$job_$kind"
		name="tcp: $(count_of $kind) times $kind: the client goes on, each acknowledged record is there, none twice"
		[ "$(cat "$DIR/$kind.code")" = 0 ] && ok "$name" || not_ok "$name" "$(cat "$DIR/$kind.out")"
		sed "s/^#/# $kind:/" "$DIR/$kind.err"
	done
	for kind in $KINDS; do # a link that is back in time breaks nothing
		[ $kind = link ] || check "tcp: $kind connections were given up" began_again $kind "$(count_of $kind)"
	done
	held_is "tcp: networks that fail" "$before"
}

if [ -n "${FAULTS_NET:-}" ]; then
	check "three networks, and a link to each" links_make
else
	echo "skip: no network of its own (unshare -n): neither cut, silent nor lost links"
	KINDS=
fi
write_conf "$D0" "$D1"
for kind in $KINDS; do echo "listen = $(way_to $kind)"; done >>"$CONF"
check "format" "$BIN/wekactl" format --protect none "$D0" "$D1"
check "start" start
[ $failures = 0 ] || finish
for way in shm tcp; do
	address=$SHM
	[ $way = shm ] || address=$TCP
	case " $FAULTS " in *" die "*)
		appliance_dies $way "$address"
		clients_die $way "$address" ;;
	esac
done
[ -z "$KINDS" ] || networks_fail
check "a clean stop" stop
check "check finds nothing wrong" "$BIN/wekactl" check "$D0" "$D1"
finish

# SPDX-License-Identifier: BSD-2-Clause-Patent
# shellcheck shell=sh
# For payloads with soft-RoCE.

# network ADDRESS...: eth0 and on, a verbs device on each.
network() {
	ip link set lo up
	links=0
	for address; do
		ip addr add "$address/24" dev eth$links
		ip link set eth$links up
		rdma link add rxe$links type rxe netdev eth$links
		links=$((links + 1))
	done
}

# Without the id of a closed connection, which stays for a while.
resources() { rdma resource show | sed 's/ cm_id [0-9]*//'; }

# Prints the resources that only running requests, sessions and connections hold.  It asks over shared
# memory, so that asking does not change them.
number_of() { "$BIN/wekactl" --connect "$SHM" --key "$DIR/key" --json status | tr '{,' '\n\n' | sed -n "s/^ *\"$1\": *\([0-9]*\).*/\1/p" | head -n 1; }
counts() {
	echo "sessions $(number_of sessions_open) staging $(number_of staging_used_bytes)" \
		"busy $(($(number_of ops_max) - $(number_of ops_free)))"
	resources
}
# ... the same for two seconds: a read of the scrub, or an answer that is still with its client, holds
# staging for a moment.
settled_counts() {
	same=0 turns=0 last=
	until [ $same -ge 10 ] || [ $turns -gt 100 ]; do
		now=$(counts)
		[ "$now" = "$last" ] && same=$((same + 1)) || same=0
		last=$now turns=$((turns + 1))
		sleep 0.2
	done
	echo "$last"
}
# With load: a session and a queue pair for each client, and what they are made of.
loaded() { echo "sessions $(number_of sessions_open)"; resources; }

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Storage systems beside each other on this machine: the appliance over shared memory, TCP and TLS,
# ext4 and XFS, NFS (nfs-ganesha), redis.  `make compare` runs it; it takes about 15 minutes.
#
#   bench/compare.sh [--quick] [--only TEXT] [--no-mlperf] [--out BUILD/compare]
#
# As root it runs in namespaces of its own (mounts, network, processes), so that everything that it
# starts ends with it, however it ends, and no port of this machine is taken.  An ordinary user gets
# the systems that need no mount.  A system whose programs are missing is left out, with a line.
set -u
: "${BUILD:=build}"
here=$(cd "$(dirname "$0")/.." && pwd)
BIN=$(cd "$here" && realpath "$BUILD/release/bin")
BENCH=$BIN/weka-bench
out=$here/$BUILD/compare quick='' only='' mlperf=yes inside='' work=''
while [ $# -gt 0 ]; do
	case $1 in
	--quick) quick=yes ;;
	--only) only=$2 && shift ;;
	--no-mlperf) mlperf='' ;;
	--out) out=$2 && shift ;;
	--inside) inside=yes work=$2 && shift ;;
	*) echo "usage: bench/compare.sh [--quick] [--only TEXT] [--no-mlperf] [--out NAME]" >&2 && exit 2 ;;
	esac
	shift
done

say() { echo "compare: $*" >&2; }
remove() {
	[ ! -d "$work" ] || rm -rf "$work"
	rm -f "$out.part"
}

# ---- outside: a directory, namespaces, and no trace afterwards -------------------------------------

if [ -z "$inside" ]; then
	[ -x "$BENCH" ] || { say "no $BENCH: make first"; exit 1; }
	work=$(mktemp -d "${COMPARE_DIR:-$here/$BUILD}/compare.XXXXXX") || exit 1
	trap remove EXIT
	trap 'interrupted=130' INT TERM HUP # the child has it too, or gets it below; then the trap above
	interrupted=0
	set -- --inside "$work" --out "$out" ${quick:+--quick} ${only:+--only "$only"}
	[ -n "$mlperf" ] || set -- "$@" --no-mlperf
	if [ "$(id -u)" = 0 ] && unshare -m -n -p -f true 2>/dev/null; then
		unshare -m -n -p -f --kill-child --mount-proc "$0" "$@" &
	else
		say "not root, or no namespaces here: ext4, XFS and NFS are left out"
		"$0" "$@" &
	fi
	child=$!
	code=1
	while kill -0 $child 2>/dev/null; do
		wait $child
		code=$?
		# unshare passes no signal on: its child is the first process of the namespace.  Not
		# INT, which a shell ignores that was started in the background.
		[ $interrupted = 0 ] || pkill -TERM -P $child 2>/dev/null || kill -TERM $child 2>/dev/null
		[ $interrupted = 0 ] || sleep 0.2
	done
	[ $interrupted = 0 ] || { say "interrupted"; exit $interrupted; }
	exit $code
fi

# ---- inside ---------------------------------------------------------------------------------------------

pids='' mounts='' bench=''
finish() {
	trap - EXIT
	[ -z "$bench" ] || kill "$bench" 2>/dev/null
	[ -z "$bench" ] || wait "$bench" 2>/dev/null # it removes what it made
	for p in $pids; do kill "$p" 2>/dev/null; done
	for m in $mounts; do umount "$m" 2>/dev/null || umount -l "$m" 2>/dev/null; done
	for p in $pids; do wait "$p" 2>/dev/null; done
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

targets=0
: >"$work/targets"
# add NAME TARGET [PID]: a target of the comparison, as a line of words for xargs.
add() {
	targets=$((targets + 1))
	printf "%s\n" "--target" "$2" "--name" "$1" >>"$work/targets"
	[ -z "${3:-}" ] || printf "%s\n" "--pid" "$3" >>"$work/targets"
}
has() { command -v "$1" >/dev/null 2>&1 || { say "no $1: $2 is left out"; return 1; }; }

free_mib=$(awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo)
if [ -n "$quick" ]; then drive=2G image=4G; else drive=4G image=8G; fi
# Two appliances, redis, and the clients' memory.
if [ "$free_mib" -lt 13000 ] && [ -z "$quick" ]; then
	say "less than 13 GB of free memory: a quick comparison"
	quick=yes drive=2G
fi

if [ "$(id -u)" = 0 ]; then
	ip link set lo up 2>/dev/null
	mount -t tmpfs none /run 2>/dev/null && mkdir -p /run/rpcbind # of this namespace only
fi

(umask 077; echo "$(od -An -tx1 -N32 /dev/urandom | tr -d ' \n')" >"$work/key")
appliance() { # NAME DRIVE LISTEN... : starts one; its pid in $appliance_pid
	conf=$work/$1.conf
	log=$work/$1.log
	echo "drive = $2" >"$conf"
	shift 2
	printf '%s\n' "key_file = $work/key" "core = none" "$@" >>"$conf"
	case $(head -n 1 "$conf") in
	*file:*) "$BIN/wekactl" --config "$conf" format >"$log" 2>&1 || { cat "$log" >&2; return 1; } ;;
	esac
	"$BIN/weka-appliance" --config "$conf" >>"$log" 2>&1 &
	appliance_pid=$!
	pids="$pids $appliance_pid"
}
answers() { # ADDRESS
	n=0
	until "$BIN/wekactl" -c "$1" -k "$work/key" status >/dev/null 2>&1; do
		n=$((n + 1))
		[ $n -lt 1200 ] || { say "$1 does not answer"; return 1; }
		sleep 0.1
	done
}
port=${PORT:-$((20000 + $$ % 2000 * 4))} # and the next
appliance memory "mem:$drive" "listen = shm:$work/memory.sock" "listen = tcp://127.0.0.1:$port" &&
	answers "shm:$work/memory.sock" || exit 1
add "appliance shm, memory" "shm:$work/memory.sock" $appliance_pid
add "appliance tcp, memory" "tcp://127.0.0.1:$port" $appliance_pid
appliance tls "mem:$drive" "listen = tcp://127.0.0.1:$((port + 1))" "tls = required" &&
	answers "tls://127.0.0.1:$((port + 1))" || exit 1
add "appliance tls, memory" "tls://127.0.0.1:$((port + 1))" $appliance_pid
appliance disk "file:$work/drive?size=$drive" "listen = shm:$work/disk.sock" &&
	answers "shm:$work/disk.sock" || exit 1
add "appliance shm, disk" "shm:$work/disk.sock" $appliance_pid

file_system() { # NAME MKFS...: an image of its own in $work/NAME
	name=$1
	shift
	truncate -s "$image" "$work/$name.img" && "$@" "$work/$name.img" >/dev/null 2>&1 && mkdir "$work/$name" &&
		loop=$(losetup --find --show --direct-io=on "$work/$name.img") || return 1
	if mount "$loop" "$work/$name"; then
		losetup -d "$loop" # it stays until the umount
		mounts="$mounts $work/$name"
		return 0
	fi
	losetup -d "$loop"
	return 1
}
if [ "$(id -u)" = 0 ] && has mkfs.xfs "XFS"; then
	if file_system xfs mkfs.xfs -q; then
		add "XFS, page cache" "posix:$work/xfs"
		add "XFS, caches dropped" "cold:$work/xfs"
		add "XFS, O_DIRECT" "direct:$work/xfs"
		add "XFS, io_uring" "uring:$work/xfs"
	else
		say "XFS cannot be mounted here: it is left out"
	fi
fi
if [ "$(id -u)" = 0 ] && has mkfs.ext4 "ext4"; then
	if file_system ext4 mkfs.ext4 -q; then
		add "ext4, page cache" "posix:$work/ext4"
	else
		say "ext4 cannot be mounted here: it is left out"
	fi
fi
[ -n "$mounts" ] || add "this directory, page cache" "posix:$work"

nfs() { # exports the ext4
	cat >"$work/ganesha.conf" <<-END
		NFS_CORE_PARAM { Protocols = 3; NFS_Port = $((port + 2)); MNT_Port = $((port + 3)); Enable_UDP = false;
			Enable_NLM = false; Enable_RQUOTA = false; mount_path_pseudo = false; }
		EXPORT_DEFAULTS { Access_Type = RW; Squash = No_Root_Squash; SecType = sys; Protocols = 3;
			Transports = TCP; PrivilegedPort = false; }
		EXPORT { Export_Id = 1; Path = $work/ext4; Pseudo = /x; FSAL { Name = VFS; } }
	END
	rpcbind -f &
	pids="$pids $!"
	sleep 1
	ganesha.nfsd -F -f "$work/ganesha.conf" -L "$work/ganesha.log" -p "$work/ganesha.pid" >/dev/null 2>&1 &
	nfs_pid=$!
	pids="$pids $nfs_pid"
	n=0
	until grep -q ":$(printf '%04X' $((port + 3))) .* 0A " /proc/net/tcp /proc/net/tcp6; do
		n=$((n + 1))
		[ $n -lt 200 ] && kill -0 $nfs_pid 2>/dev/null || return 1
		sleep 0.1
	done
}
PATH=$PATH:/usr/sbin:/sbin
if [ -d "$work/ext4" ] && has ganesha.nfsd "NFS" && has rpcbind "NFS"; then
	if nfs; then
		add "NFS, ganesha on ext4" \
			"nfs://127.0.0.1$work/ext4?nfsport=$((port + 2))&mountport=$((port + 3))" $nfs_pid
	else
		say "nfs-ganesha does not start: it is left out"
		tail -n 3 "$work/ganesha.log" >&2
	fi
fi
if has redis-server "redis"; then
	redis-server --port $((port + 1000)) --bind 127.0.0.1 --save "" --appendonly no --dir "$work" >/dev/null 2>&1 &
	pids="$pids $!"
	add "redis" "redis://127.0.0.1:$((port + 1000))" $!
	sleep 1
fi

# ---- measure --------------------------------------------------------------------------------------------

# Not pushed aside by other work, if we may.
nice=$(nice -n -15 true 2>/dev/null && echo "nice -n -15")
threads=$(nproc)
run() { # COMMAND OPTION...: with all targets of the list
	while read -r word; do set -- "$@" "$word"; done <"$work/list"
	# In the background, so that a signal is answered at once.
	$nice "$BENCH" "$@" --key "$work/key" --json >>"$out.part" &
	bench=$!
	wait $bench
	code=$?
	bench=''
	return $code
}
only_of() { # PATTERN: the targets whose name matches
	awk -v p="$1" '/^--target$/ { getline t; getline; getline name; keep = name ~ p
		if (keep) print "--target\n" t "\n--name\n" name; next }
		keep' "$work/targets" >"$work/list"
	[ -s "$work/list" ]
}
: >"$out.part"
cp "$work/targets" "$work/list"
failed=0
local=$work
[ ! -d "$work/xfs" ] || local=$work/xfs
say "$targets systems, ${quick:+quick, }in turn"
run compare --threads "$threads" --local "$local" ${quick:+--quick} ${only:+--only "$only"} --seconds "$([ -n "$quick" ] && echo 0.2 || echo 0.5)" \
	--runs 5 || failed=1
if [ -n "$mlperf" ]; then
	seconds=$([ -n "$quick" ] && echo 0.3 || echo 1)
	bytes=$([ -n "$quick" ] && echo 200M || echo 600M)
	for w in "resnet50 --accelerator h100" "cosmoflow --accelerator h100" "retinanet --accelerator b200"; do
		only_of '^appliance (shm|tcp), memory|^appliance shm, disk|^XFS, (O_DIRECT|page)|^NFS' &&
			say "MLPerf $w" && run mlperf $w --prefetch 8 --seconds "$seconds" --bytes "$bytes" || failed=1
	done
	only_of '^appliance (shm|tcp)|^XFS, (O_DIRECT|page)|^NFS' &&
		say "checkpoints" && run checkpoint llama3-8b --ranks 4 --bytes 200M || failed=1
	only_of '^appliance (shm|tcp)|^XFS, (O_DIRECT|page)|^NFS' &&
		say "KV caches" && run kvcache 70b --bytes 200M --seconds "$seconds" || failed=1
fi
mv "$out.part" "$out.json"
"$BENCH" report "$out.json" --html "$out.html" || failed=1
# One picture of the six figures that most people ask for first.
"$BENCH" report "$out.json" --svg "$out.svg" --only "files of 4 KiB by name" --only "files of 112 KiB by name" \
	--only "at random" --only "in order" --only "1 KiB created, durable" --only "attributes by name" >/dev/null ||
	[ -n "$only" ] || failed=1
say "$out.json, $out.html, $out.svg"
exit $failed

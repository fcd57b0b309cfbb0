#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# A mount is exported by nfs-ganesha, as weka-mount(8) says: a client of NFS writes, reads, lists and
# removes files, and the appliance has them.  Everything of NFS is in namespaces of its own.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh && . test/e2e/mount_lib.sh
: "${APP_CORES:=1}"
need_fuse
[ "${TEST_LENGTH:-long}" != short ] || { echo "skip: only in make test-long"; exit 0; }
PATH=$PATH:/usr/sbin:/sbin
for program in ganesha.nfsd rpcbind; do
	command -v $program >/dev/null || { echo "skip: no $program here"; exit 0; }
done
unshare -m -n -p -f true 2>/dev/null || { echo "skip: no namespaces here"; exit 0; }

write_conf mem:1G
check "the appliance starts" start
check "it is mounted" mount_at "$MNT"
cat >"$DIR/ganesha.conf" <<END
NFS_CORE_PARAM { Protocols = 3; NFS_Port = 2049; MNT_Port = 20048; Enable_UDP = false; Enable_NLM = false;
	Enable_RQUOTA = false; mount_path_pseudo = false; }
EXPORT_DEFAULTS { Access_Type = RW; Squash = No_Root_Squash; SecType = sys; Protocols = 3; Transports = TCP;
	PrivilegedPort = false; }
EXPORT { Export_Id = 1; Path = $MNT; Pseudo = /weka; Filesystem_Id = 7.7; FSAL { Name = VFS; } }
END
cat >"$DIR/inside.sh" <<'END'
ip link set lo up && mount -t tmpfs none /run && mkdir -p /run/rpcbind || exit 1
rpcbind -f &
sleep 1
ganesha.nfsd -F -f "$DIR/ganesha.conf" -L "$DIR/ganesha.log" -p "$DIR/ganesha.pid" >/dev/null 2>&1 &
n=0
until grep -q "NFS SERVER INITIALIZED" "$DIR/ganesha.log" 2>/dev/null; do
	n=$((n + 1))
	[ $n -lt 600 ] || exit 1
	sleep 0.1
done
bench() { "$BIN/weka-bench" compare --quick --seconds 0.2 --runs 1 --bytes 2M --target "nfs://127.0.0.1$MNT?nfsport=2049&mountport=20048" "$@"; }
bench --only "4 KiB by name" && bench --only Names
END
export DIR BIN MNT
written() { ctl --json status | python3 -c "import json, sys; print(json.load(sys.stdin)['bytes']['written'])"; }
before=$(written)
check "a client of NFS makes, reads, lists and removes files" unshare -m -n -p -f --kill-child --mount-proc sh "$DIR/inside.sh"
is "and finds in each what was written" "" "$(grep -i 'stamp\|error\|failed' "$DIR/check.out")"
check "their bytes went to the appliance" [ $(($(written) - before)) -ge 2000000 ]
check "it is unmounted" umount "$MNT"
check "and its program ends" gone
check "the appliance stops" stop
finish

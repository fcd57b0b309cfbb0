# test/ - everything that is not shipped.  May include any header, private ones too.
test_uses     := $(layers) appliance/ctl client-lib/mount client-lib/preload bench
# Those that take long begin first: several run at once.
first_ones     = $(filter $(1),$(2)) $(filter-out $(1),$(2))
unit_tests    := $(patsubst test/unit/%.c,%,$(wildcard test/unit/test_$(T)*.c))
# make test runs each suite once, under ASan or, where that takes long or means nothing, in release;
# make test-long runs all in both.
asan_long     := $(addprefix test_meta_,boot collect copies dead domain double drain drives fold full_log full_rebuild gc \
	heads heal last_drive loss_log majority needed pair power protect rebuild receipt replace scrub spare statfs store \
	three three_log three_needed three_roots totals) $(addprefix test_app_,dataset hedge readers replay rights serve tail \
	three weights) $(addprefix test_weka_,lanes posix_access posix_open)
release_only  := $(addprefix test_,app_account app_hotpath base_seal base_secret weka_hot)
# Not in make test at all.  These suites fill a store many times, or cut its power at each write.  For each
# of them, and for each script, another one stays: for drives that are lost e2e_fold, test_meta_protect and
# the simulations, for a kill e2e_kill, for programs under a mount e2e_mount_cases, for a real kernel
# guest_power.  WHOLE=1 has the scripts in a short run, too.
unit_long     := $(addprefix test_meta_,fold_full fold_hostile fold_late full ops_store pair_moves protect_full \
	protect_three rebuild_room totals_full) $(addprefix test_app_,again fold hedge_fold)
e2e_long      := $(patsubst %,test/e2e/e2e_%.sh,agree collect crowd deb lanes many members mirror mlperf mount_away mount_kills \
	mount_programs names namespaces preload_away preload_programs protect_bench protect_room python_asan \
	replace salvage three)
guest_long    := test/guest/guest_tree.sh
is_short      := $(if $(WHOLE),,$(filter short,$(TEST_LENGTH)))
not_long       = $(if $(is_short),$(filter-out $(1),$(2)),$(2))
short_of       = $(if $(filter asan,$(VARIANT)),$(filter-out $(asan_long),$(1)),$(filter $(asan_long) $(release_only),$(1)))
unit_tests    := $(call first_ones,$(addprefix test_,app_fold app_replay app_serve meta_drain meta_fold meta_fold_full \
	meta_full meta_pair meta_pair_moves nvme_away nvme_hang),$(if \
	$(is_short),$(call short_of,$(filter-out $(unit_long),$(unit_tests))),$(unit_tests)))
torture_tests := $(patsubst test/torture/%.c,%,$(wildcard test/torture/torture_$(T)*.c))
fuzz_tests    := $(patsubst test/fuzz/%.c,%,$(wildcard test/fuzz/fuzz_$(T)*.c))
e2e_tests     := $(call not_long,$(e2e_long),$(wildcard test/e2e/e2e_$(T)*.sh))
e2e_tests     := $(call first_ones,%_python.sh,$(call first_ones,$(addprefix %_,$(addsuffix .sh,agree crowd deb docs faults \
	fold import kill metrics mirror mount_cases mount_programs page preload_away preload_programs protect_room \
	python_asan python_more vfio_user)),$(e2e_tests)))
test_tools    := $(patsubst test/tools/%.c,%,$(wildcard test/tools/*.c))
guest_tests   := $(call first_ones,%_rdma.sh %_tree.sh %_power.sh,$(call not_long,$(guest_long),$(wildcard test/guest/guest_$(T)*.sh)))
guest_preload := $(patsubst test/guest/%.c,%.so,$(wildcard test/guest/preload_*.c))
guest_tools   := $(patsubst test/guest/%.c,%,$(filter-out test/guest/preload_%,$(wildcard test/guest/*.c)))

# A file of test/sim/ with a main is a program; the others, and test/lib/, are for all tests.
sim_tests     := $(patsubst test/sim/%.c,%,$(shell grep -lE '^int main' /dev/null $(wildcard test/sim/*.c)))
test_lib_srcs := $(wildcard test/lib/*.c) $(filter-out $(sim_tests:%=test/sim/%.c),$(wildcard test/sim/*.c))
sim_tests     := $(call first_ones,crowd drive fair flip flip_folds heal loss losses reuse rot sim wire,$(filter $(T)%,$(sim_tests)))

# Sources that one test needs beside the layers: NAME_srcs.
test_base_seal_srcs := base/seal_malloc.c
test_weka_hot_srcs := base/seal_malloc.c
test_nvme_vfio_srcs := base/seal_malloc.c
test_app_hotpath_srcs := base/seal_malloc.c
drive_srcs := base/seal_malloc.c
# Calls that go to test/lib/sim_sock.c instead of the system.
sim_sock_calls := socket bind listen accept4 connect getpeername getsockname getsockopt setsockopt shutdown send sendmsg \
	recv recvmsg read write close fcntl epoll_create1 epoll_ctl epoll_wait eventfd timerfd_create timerfd_settime ppoll \
	getrandom clock_now_ns clock_wall_ns
sim_sock_ldflags := $(sim_sock_calls:%=-Wl,--wrap=%)
wire_ldflags := $(sim_sock_ldflags)
sim_ldflags := $(sim_sock_ldflags)
test_app_hedge_ldflags := $(sim_sock_ldflags)
test_app_hedge_fold_ldflags := $(sim_sock_ldflags)
test_app_spread_ldflags := $(sim_sock_ldflags)
# Where a plan begins.
order_ldflags := -Wl,--wrap=meta__tx_begin
# wekactl's own, but for its commands, and for what writes to /sys: test/lib/ctl_world.c plays the kernel.
ctl_srcs := $(filter-out appliance/ctl/ctl_drives.c appliance/ctl/ctl_sysfs_write.c,\
	$(wildcard appliance/ctl/ctl_drives*.c appliance/ctl/ctl_sysfs*.c appliance/ctl/ctl_doctor*.c appliance/ctl/ctl_signature.c appliance/ctl/ctl_look.c))
$(foreach t,$(filter test_ctl_%,$(unit_tests)) $(filter fuzz_ctl_%,$(fuzz_tests)),$(eval $(t)_srcs := $(ctl_srcs)))
test_ctl_status_srcs := $(addprefix appliance/ctl/ctl_,status_text.c status_rebuild.c fold.c figures.c)
test_ctl_top_srcs := $(addprefix appliance/ctl/ctl_,top_text.c rates.c figures.c space_parts.c need.c)
test_ctl_bundle_srcs := $(addprefix appliance/ctl/ctl_,redact.c tar.c)
test_ctl_attrs_srcs := $(addprefix appliance/ctl/ctl_,attrs.c wave.c req.c local.c need.c)
test_ctl_export_srcs := $(addprefix appliance/ctl/ctl_,export.c export_file.c attrs.c crew.c links.c local.c need.c progress.c req.c wave.c)
# weka-mount's own, but for its main.
mount_srcs := $(filter-out client-lib/mount/weka-mount.c,$(wildcard client-lib/mount/*.c))
$(foreach t,$(filter test_mount_%,$(unit_tests)),$(eval $(t)_srcs := $(mount_srcs)))
# The parts of libweka-preload.so that define no function of libc's.
preload_parts := $(addprefix client-lib/preload/preload_,args.c match.c may.c)
$(foreach t,$(filter test_preload_%,$(unit_tests)),$(eval $(t)_srcs := $(preload_parts)))
torture_preload_slot_srcs := client-lib/preload/preload_slot.c
fuse_memory_srcs := $(addprefix client-lib/mount/mount_,kernel.c dead.c)
test_ctl_print_srcs := appliance/ctl/ctl_print.c
test_ctl_local_srcs := appliance/ctl/ctl_local.c appliance/ctl/ctl_need.c

# make               all: programs, libraries, examples, in build/release
# make demo          real files onto an appliance and back, timed and compared; DATA=DIR for your own
# make test          proves the tree, in about 20 minutes; the rest: test-long, proof
#
# make check         unit tests and tidy        make check T=meta     only test_meta*, no tidy
# make check-asan    the same under ASan/UBSan  make check-tsan       lock-free code under TSan
# make sim SEED=7    one simulated run again    make fuzz             FUZZ_SECONDS=5 each parser
# make test-guest    the end-to-end tests in a guest with NVMe controllers and an IOMMU; T=tree one
# make e2e           scripts over the programs  make bench            the tables of bench/RESULTS.md
# make bench-mount    weka-mount beside a FUSE file system that answers from memory
# make bench-preload  libweka-preload.so beside weka-mount
# make bench-instructions   what a read costs in nvme/, and a file that is made or removed: by valgrind
# make compare       the appliance beside ext4, XFS, NFS, redis: 15 minutes; QUICK=1: 4
# make bench-guest   the driver on a guest's NVMe controllers, beside a bare doorbell loop
# make tidy          style, layers, formatting  make deps             install what is missing (Debian)
# make python        the package weka for Python, in build/release/python
# make install       DESTDIR=, PREFIX=/usr/local, LIBDIR=PREFIX/lib, SBINDIR=/usr/sbin (mount.weka)
# make deb           Debian packages, in build/deb
# make image         a disk image that makes a server an appliance, in build/image (as root)
# make test-image    boots it in QEMU
# make clean
#
# VARIANT=release|debug|asan|tsan|sim|fuzz|cov   BUILD=build   CC=gcc|clang   V=1 shows the commands
#
# One make for the whole tree: each folder's .mk names its sources and, in
# FOLDER_uses, the folders it may include and link (most have folders of their own).  That line is the architecture;
# the link order and the include check below both come from it.  A .mk may also
# declare programs:
#
#   programs += wekactl
#   wekactl_srcs := appliance/ctl/wekactl.c ...      its main and what else no layer has
#   wekactl_uses := base nvme meta fabric client-lib

MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
.SECONDARY:

VERSION := 0.1.0
SONAME  := libweka-client.so.0

VARIANT ?= release
BUILD   ?= build
PREFIX  ?= /usr/local
LIBDIR  ?= $(PREFIX)/lib
JOBS    ?= $(shell nproc)
B       := $(BUILD)/$(VARIANT)
Q       := $(if $(V),,@)
say      = $(if $(V),,@printf '  %-5s %s\n' $(1) $(2))

programs :=
include nvme/nvme.mk meta/meta.mk fabric/fabric.mk appliance/appliance.mk
layers   := base nvme $(nvme) meta $(meta) fabric $(fabric) client-lib client-lib/dataset $(appliance)
include $(foreach l,$(filter-out nvme meta fabric,$(layers)) appliance/ctl client-lib/mount client-lib/preload,$(l)/$(notdir $(l)).mk) $(wildcard bench/bench.mk) test/test.mk

# ---- flags ----------------------------------------------------------------------

ifeq ($(origin CC),default)
CC      := gcc
endif
WARN    := -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes \
	   -Wmissing-prototypes -Wpointer-arith -Wvla -Wimplicit-fallthrough -Werror
# An atomic field that is used like a plain one; gcc has no such warning, but the fuzzers are built by clang.
WARN    += $(if $(findstring clang,$(CC)),-Watomic-implicit-seq-cst)
# One build for all of a kind of machine: x86-64-v2 is every server since 2009, and has
# the CRC32 instruction.  ISA-L, which gains from newer ones, chooses at run time.
ARCH    := $(if $(filter x86_64%,$(shell $(CC) -dumpmachine 2>/dev/null)),-march=x86-64-v2 -mtune=generic)
# PIC everywhere, since base/ and fabric/ are also in libweka-client.so; it costs nothing
# where functions of one file may be inlined as in a program (-fno-semantic-interposition).
# The same bytes in whatever directory: none of its names is in them.
CFLAGS  := -std=gnu17 -g -ffile-prefix-map=$(CURDIR)=. $(ARCH) -fPIC -fno-semantic-interposition -fno-omit-frame-pointer \
	   -fno-strict-aliasing -I. $(WARN)
LDFLAGS := -Wl,--as-needed -Wl,-z,relro,-z,now
# What is not used is not linked (--as-needed).
LDLIBS  := -lisal -lxxhash -luring -lssl -lcrypto -linih -ljansson -lblkid -lpci -lpthread -lm

sanitize       := -O1 -DWK_DEBUG -fno-sanitize-recover=all
CFLAGS_release := -O2 -D_FORTIFY_SOURCE=2
CFLAGS_debug   := -O0 -DWK_DEBUG
CFLAGS_asan    := $(sanitize) -fsanitize=address,undefined
# gcc expands memcpy in place, where TSan does not look: a race in copied bytes went unseen.
CFLAGS_tsan    := $(sanitize) -fsanitize=thread -fno-builtin
CFLAGS_sim     := -O2 -DWK_DEBUG
CFLAGS_fuzz    := $(sanitize) -fsanitize=fuzzer-no-link,address,undefined
CFLAGS_cov     := -O0 -DWK_DEBUG --coverage
$(if $(CFLAGS_$(VARIANT)),,$(error VARIANT=$(VARIANT): one of release debug asan tsan sim fuzz cov))
CFLAGS += $(CFLAGS_$(VARIANT)) $(EXTRA_CFLAGS)

# ---- layers: one archive each ------------------------------------------------------

objects    = $(patsubst %.c,$(B)/%.o,$(1))
reverse    = $(if $(1),$(call reverse,$(wordlist 2,999,$(1))) $(firstword $(1)))
closure_of = $(sort $(1) $(foreach u,$($(1)_uses),$(call closure_of,$(u))))
# A folder's archives, users before used: the linker refuses a call that goes up.
archive_of = $(B)/lib$(subst /,-,$(1)).a
archives   = $(foreach l,$(call reverse,$(layers)),$(if $(and $(filter $(l),$(1)),$($(l)_srcs)),$(call archive_of,$(l))))
libs_of    = $(call archives,$(sort $(foreach l,$(1),$(call closure_of,$(l)))))
all_libs  := $(call archives,$(layers))

# A program's own sources are in no layer.
program_srcs := $(foreach p,$(programs),$($(p)_srcs) $($(p)_main))

# Made anew also when a source has come or gone: its list says what it was made of.
differ = $(or $(filter-out $(1),$(2)),$(filter-out $(2),$(1)))
define layer_rules
$(call archive_of,$(1)).list: $(if $(call differ,$(file <$(call archive_of,$(1)).list),$($(1)_srcs)),.phony-flags)
	$$(Q)mkdir -p $$(@D) && echo '$($(1)_srcs)' >$$@
$(call archive_of,$(1)): $(call objects,$(filter-out $(program_srcs),$($(1)_srcs))) $(call archive_of,$(1)).list
	$(call say,AR,$$@)
	$(Q)mkdir -p $$(@D) && rm -f $$@ && ar rcs $$@ $$(filter %.o,$$^)
endef
$(foreach l,$(layers),$(if $($(l)_srcs),$(eval $(call layer_rules,$(l)))))

$(B)/libtest.a: $(call objects,$(test_lib_srcs))
	$(call say,AR,$@)
	$(Q)mkdir -p $(@D) && rm -f $@ && ar rcs $@ $(filter %.o,$^)

$(B)/%.o: %.c $(B)/flags
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

# Other flags, another compiler: everything anew.
flags := $(CC) $(shell $(CC) -dumpfullversion 2>/dev/null) $(CFLAGS)
$(B)/flags: $(if $(filter-out $(file <$(B)/flags),$(flags)),.phony-flags)
	$(Q)mkdir -p $(@D) && echo '$(flags)' >$@
.PHONY: .phony-flags
.phony-flags:

link = $(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(1) $(LDLIBS)

# ---- programs ------------------------------------------------------------------------

commit := $(or $(shell git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null),unknown)
$(B)/version.c: $(if $(findstring "$(commit)",$(file <$(B)/version.c)),,.phony-flags)
	$(Q)mkdir -p $(@D)
	$(Q)printf '#include "base/version.h"\nconst char version_text[] = "%s";\nconst char version_commit[] = "%s";\nconst char version_variant[] = "%s";\n' \
		'$(VERSION)' '$(commit)' '$(VARIANT)' >$@
$(B)/version.o: $(B)/version.c $(B)/flags
	$(Q)$(CC) $(CFLAGS) -c -o $@ $<

define program_rules
$(B)/bin/$(1): $(call objects,$($(1)_main) $($(1)_srcs)) $(B)/version.o $(call libs_of,$($(1)_uses))
	$(call say,LD,$$@)
	$$(call link,$$(filter %.o,$$^) $(call libs_of,$($(1)_uses)) $($(1)_libs))
endef
$(foreach p,$(programs),$(eval $(call program_rules,$(p))))

# ---- libweka-client ------------------------------------------------------------------

client_map     := $(wildcard client-lib/libweka-client.map)
client_objects := $(foreach l,$(call closure_of,client-lib/dataset),$(call objects,$(filter-out $(program_srcs),$($(l)_srcs))))
client_libs    := $(if $(client_map),$(B)/lib/$(SONAME) $(B)/lib/libweka-client.so $(B)/lib/libweka-client.a)
# decode needs libjpeg-turbo and libpng, and is built where both are.
example_images := $(and $(wildcard /usr/include/turbojpeg.h),$(wildcard /usr/include/png.h))
example_srcs   := $(filter-out $(if $(example_images),,%/decode.c),$(wildcard client-lib/examples/*.c))
examples       := $(if $(client_map),$(patsubst client-lib/examples/%.c,$(B)/examples/%,$(example_srcs)))

# Exports what the map names and nothing else; -z defs: nothing is left to whoever loads it.
so_flags = -shared -Wl,-soname,$(SONAME) -Wl,--version-script,$(client_map) \
	   $(if $(filter asan tsan fuzz,$(VARIANT)),,-Wl,-z,defs)
$(B)/lib/$(SONAME): $(client_objects) $(client_map)
	$(call say,LD,$@)
	$(call link,$(so_flags) $(filter %.o,$^))

$(B)/lib/libweka-client.so: $(B)/lib/$(SONAME)
	$(Q)ln -sf $(SONAME) $@

# One object whose only global names are weka_*: our names cannot meet the application's.
$(B)/lib/libweka-client.a: $(client_objects)
	$(call say,AR,$@)
	$(Q)mkdir -p $(@D) && rm -f $@
	$(Q)ld -r -o $(B)/lib/weka-client.o $(filter %.o,$^)
	$(Q)objcopy --wildcard --keep-global-symbol='weka_*' $(B)/lib/weka-client.o
	$(Q)ar rcs $@ $(B)/lib/weka-client.o && rm $(B)/lib/weka-client.o

# As a user builds them: the public header and the shared library.
$(B)/examples/%: $(B)/client-lib/examples/%.o $(client_libs)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -o $@ $< -L$(B)/lib -lweka-client $(example_libs) '-Wl,-rpath,$$ORIGIN/../lib'
$(B)/examples/decode: example_libs := -lturbojpeg -lpng

preload_flags = -shared -Wl,-soname,libweka-preload.so -Wl,--version-script,client-lib/preload/libweka-preload.map
# What is loaded before programs that were never changed.  It loads libweka-client when that is needed.
$(preload_so): $(call objects,$(preload_srcs)) $(call libs_of,base) client-lib/preload/libweka-preload.map | $(B)/lib/$(SONAME)
	$(call say,LD,$@)
	$(call link,$(preload_flags) $(filter %.o,$^) $(call libs_of,base))

include client-lib/python/python.mk

.PHONY: all
.DEFAULT_GOAL := all
all: $(all_libs) $(programs:%=$(B)/bin/%) $(client_libs) $(preload_so) $(examples) $(if $(python_headers),python)

# ---- tests ---------------------------------------------------------------------------

# test_LAYER_* links LAYER and what it uses, nothing above; those of the top two see all.
layer_of_prefix = $(or $(if $(filter fab,$(1)),$(fabric)),$(if $(filter nvme,$(1)),nvme/driver)$(if $(filter meta,$(1)),meta/run meta/offline)$(if $(filter app ctl weka bench mount preload,$(1)),$(appliance) client-lib/dataset),$(1))
test_layer      = $(call layer_of_prefix,$(word 2,$(subst _, ,$(1))))
test_libs       = $(call libs_of,$(call test_layer,$(1)))

define test_rules
$(B)/test/unit/$(1): $(call objects,test/unit/$(1).c $($(1)_srcs)) $(B)/libtest.a $(call test_libs,$(1))
	$(call say,LD,$$@)
	$$(call link,$$(filter %.o,$$^) $(B)/libtest.a $(call test_libs,$(1)) -lcriterion $$($(1)_ldflags))
endef
$(foreach t,$(unit_tests),$(eval $(call test_rules,$(t))))

define plain_rules
$(B)/test/$(1): $(call objects,test/$(1).c $($(notdir $(1))_srcs)) $(B)/libtest.a $(all_libs)
	$(call say,LD,$$@)
	$$(call link,$$(filter %.o,$$^) $(B)/libtest.a $(all_libs) $(2) $$($(notdir $(1))_ldflags))
endef
$(foreach t,$(torture_tests),$(eval $(call plain_rules,torture/$(t))))
$(foreach t,$(sim_tests),$(eval $(call plain_rules,sim/$(t))))
$(foreach t,$(test_tools),$(eval $(call plain_rules,tools/$(t))))
$(foreach t,$(fuzz_tests),$(eval $(call plain_rules,fuzz/$(t),-fsanitize=fuzzer)))

FUZZ_SECONDS ?= 5
run = $(Q)BUILD='$(BUILD)' VARIANT='$(VARIANT)' JOBS='$(JOBS)' FUZZ_SECONDS='$(FUZZ_SECONDS)' SEED='$(SEED)' \
	CC='$(CC)' MAKE='$(MAKE)' ./test/run.sh

.PHONY: python-asan unit torture sim-run fuzz-run check check-asan check-tsan sim fuzz e2e lib-check guest-tools test-guest
unit: $(unit_tests:%=$(B)/test/unit/%)
	$(run) unit-$(VARIANT) $^

torture: $(torture_tests:%=$(B)/test/torture/%)
	$(run) torture-$(VARIANT) $^

sim-run: $(sim_tests:%=$(B)/test/sim/%)
	$(run) sim $^

fuzz-run: $(fuzz_tests:%=$(B)/test/fuzz/%)
	$(run) fuzz $^

lib-check: $(client_libs)
	$(run) lib $(if $(client_map),test/lib_check.sh)

e2e: all python $(test_tools:%=$(B)/test/tools/%) $(B)/test/guest/witness $(if $(filter %python_asan.sh,$(e2e_tests)),python-asan)
	$(run) e2e $(e2e_tests)

# test/guest/NAME.c: a program for the guest's tests; preload_NAME.c: what is loaded before one.
$(foreach t,$(guest_tools),$(eval $(call plain_rules,guest/$(t))))
$(B)/test/guest/preload_%.so: $(B)/test/guest/preload_%.o
	$(call say,LD,$@)
	$(call link,-shared $<)

# In a guest: QEMU, a stock kernel, vfio.  GUEST_CACHE=DIR for what several BUILDs share.
guest-tools: all $(guest_tools:%=$(B)/test/guest/%) $(guest_preload:%=$(B)/test/guest/%)
test-guest: guest-tools
	$(run) guest $(guest_tests)

# Each in its variant, as a make of its own, so that one call can go through several.
sub = $(Q)+$(MAKE) --no-print-directory -j$(JOBS)
check:      ; $(sub) $(if $(T),unit,unit tidy lib-check)
check-asan: ; $(sub) VARIANT=asan unit
check-tsan: ; $(sub) VARIANT=tsan torture
sim:        ; $(sub) VARIANT=sim sim-run
fuzz:       ; $(sub) VARIANT=fuzz CC=clang fuzz-run
python-asan: ; $(sub) VARIANT=asan python

.PHONY: test test-long proof
test:       deps ; $(Q)BUILD='$(BUILD)' MAKE='$(MAKE)' TEST_LENGTH=short ./test/test.sh
test-long:  deps ; $(Q)BUILD='$(BUILD)' MAKE='$(MAKE)' TEST_LENGTH=long  ./test/test.sh
proof:      deps ; $(Q)BUILD='$(BUILD)' MAKE='$(MAKE)' TEST_LENGTH=proof ./test/test.sh

# ---- the rest --------------------------------------------------------------------------

.PHONY: tidy sealed orders deps demo bench compare bench-guest bench-mount bench-preload bench-instructions install clean help
tidy: sealed orders
	$(run) tidy test/tidy.sh test/rules.sh test/orderings.sh test/messages.sh

# Reads the code of the archives: what a polling thread may call never allocates, and no room calls
# one that it does not use.
sealed: $(all_libs)
	$(run) sealed test/sealed.sh test/rooms.sh

# Sources that no fuzzer has, seen by clang: each access to an atomic field names its order.
# test/orderings.py looks at the names, but does not know which fields are atomic.
orders_srcs := $(sort $(program_srcs) $(preload_srcs) $(if $(python_headers),$(python_srcs)))
orders: $(if $(shell command -v clang),$(orders_srcs:%.c=$(B)/orders/%.ok))
$(B)/orders/client-lib/python/%.ok: CFLAGS += -isystem $(python_include)
$(B)/orders/%.ok: %.c
	$(Q)mkdir -p $(@D)
	$(Q)clang $(CFLAGS) -DWK_DEBUG -Wno-everything -Werror=atomic-implicit-seq-cst -fsyntax-only \
		-MMD -MP -MT $@ -MF $(@:.ok=.d) $< && touch $@

# Prints the folders that each folder or file may include, for test/tidy.sh: "folder or file=folders".
print-uses:
	@printf '%s\n' $(foreach l,$(layers) appliance/ctl client-lib/mount client-lib/preload bench test,'$(l)=$($(l)_uses)') \
		$(foreach p,$(programs),$(foreach s,$($(p)_main) $($(p)_srcs),'$(s)=$($(p)_uses)'))
.PHONY: print-uses

deps:
	$(Q)./.ci/deps.sh packages.txt

demo: deps
	$(sub) VARIANT=release all
	$(Q)BUILD='$(BUILD)' DATA='$(DATA)' ./test/demo.sh

bench:
	$(sub) VARIANT=release all
	$(Q)BUILD='$(BUILD)' ./bench/bench.sh

# Packages that are missing leave a system out.
compare: deps
	$(Q)./.ci/deps.sh bench/compare.txt || true
	$(sub) VARIANT=release all
	$(Q)BUILD='$(BUILD)' ./bench/compare.sh $(if $(QUICK),--quick)

bench-guest:
	$(sub) VARIANT=release all $(guest_tools:%=$(BUILD)/release/test/guest/%)
	$(Q)BUILD='$(BUILD)' ./bench/guest.sh
	$(Q)BUILD='$(BUILD)' ./bench/guest_rdma.sh

bench-mount:
	$(sub) VARIANT=release all $(BUILD)/release/test/tools/fuse_memory
	$(Q)BUILD='$(BUILD)' ./bench/mount.sh

bench-preload:
	$(sub) VARIANT=release all $(BUILD)/release/test/tools/read_folder
	$(Q)BUILD='$(BUILD)' ./bench/preload.sh

bench-instructions:
	$(sub) VARIANT=release all $(BUILD)/release/test/tools/cores_clock
	$(Q)BUILD='$(BUILD)' ./bench/instructions.sh
	$(Q)BUILD='$(BUILD)' ./bench/instructions_store.sh

man_pages := $(wildcard $(foreach l,$(layers) appliance/ctl client-lib/mount client-lib/preload appliance/image bench,$(l)/*.[1-8]))
units     := $(wildcard appliance/*/*.service client-lib/mount/*.service)
# Alerts and a dashboard, and the licence of what the page has from others.
monitoring := appliance/http/weka.rules.yml appliance/http/weka-dashboard.json
R := $(BUILD)/release
# mount(8) looks for its helpers in /sbin only, which is /usr/sbin.
SBINDIR ?= $(if $(filter /usr /usr/local,$(PREFIX)),/usr,$(PREFIX))/sbin
install:
	$(sub) VARIANT=release all
	$(Q)install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(PREFIX)/include
	$(Q)install -m 755 $(programs:%=$(R)/bin/%) $(DESTDIR)$(PREFIX)/bin
	$(Q)install -d $(DESTDIR)$(SBINDIR)
	$(Q)ln -srf $(DESTDIR)$(PREFIX)/bin/weka-mount $(DESTDIR)$(SBINDIR)/mount.weka
	$(Q)ln -srf $(DESTDIR)$(PREFIX)/bin/weka-mount $(DESTDIR)$(SBINDIR)/mount.fuse.weka
	$(Q)install -m 755 $(R)/lib/$(SONAME) $(DESTDIR)$(LIBDIR)
	$(Q)ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/libweka-client.so
	$(Q)install -m 755 $(R)/lib/libweka-preload.so $(DESTDIR)$(LIBDIR)
	$(Q)install -m 644 $(R)/lib/libweka-client.a $(DESTDIR)$(LIBDIR)
	$(Q)install -m 644 client-lib/weka_client.h client-lib/weka_sync.h client-lib/weka_dataset.h client-lib/weka_pool.h $(DESTDIR)$(PREFIX)/include
	$(Q)sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|$(VERSION)|' client-lib/weka-client.pc.in \
		>$(DESTDIR)$(LIBDIR)/pkgconfig/weka-client.pc
	$(Q)install -D -m 644 fabric/weka.lua $(DESTDIR)$(PREFIX)/share/weka/weka.lua
	$(Q)install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	$(Q)set -e; for unit in $(units); do \
		sed 's|/usr/local/bin|$(PREFIX)/bin|g' $$unit >$(DESTDIR)$(PREFIX)/lib/systemd/system/$${unit##*/}; done
	$(Q)install -D -m 644 appliance/host/weka.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/weka.conf
	$(Q)install -m 644 appliance/host/weka-appliance.conf.example $(monitoring) $(DESTDIR)$(PREFIX)/share/weka
	$(Q)install -m 644 appliance/http/page/uplot/LICENSE $(DESTDIR)$(PREFIX)/share/weka/uPlot.LICENSE
	$(if $(python_headers),$(python_install),@echo "python3-dev is not installed: the package weka is left out")
	$(Q)set -e; for page in $(man_pages); do \
		to=$(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/$${page##*/}; install -d $${to%/*}; \
		sed 's|/usr/local/|$(PREFIX)/|g' $$page >$$to; done
	$(Q)install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	$(Q)$(R)/bin/wekactl completion bash >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/wekactl

include appliance/deb/deb.mk appliance/image/image.mk

clean: ; $(Q)rm -rf $(BUILD)
help:  ; @sed -n '1,/^# VARIANT/s/^# \{0,1\}//p' Makefile

# Not for print-uses, which builds nothing: test/rooms.sh asks for it while clang writes some of these (orders).
ifneq ($(MAKECMDGOALS),print-uses)
-include $(shell find $(B) -name '*.d' 2>/dev/null)
endif

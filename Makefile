# make            everything, into build/release        make check     unit tests, tidy
# make V=1        show the commands                      make check-asan, check-tsan
# make VARIANT=debug|asan|tsan|cov ...                   make help
#
# One make for the whole tree: each folder's .mk names its sources and, in
# FOLDER_uses, the folders it may include and link.  That line is the architecture;
# the link order and the include check below both come from it.

MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
.SECONDARY:

VARIANT ?= release
BUILD   ?= build
B       := $(BUILD)/$(VARIANT)
Q       := $(if $(V),,@)
say      = $(if $(V),,@printf '  %-5s %s\n' $(1) $(2))

layers := base nvme meta fabric client-lib appliance
include $(foreach l,$(layers),$(l)/$(l).mk) test/test.mk

CC      := gcc
WARN    := -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes \
	   -Wmissing-prototypes -Wpointer-arith -Wvla -Wimplicit-fallthrough -Werror
CFLAGS  := -std=gnu17 -g -fno-omit-frame-pointer -fno-strict-aliasing -I. $(WARN)
LDLIBS  := -lisal -lxxhash -luring -lcrypto -lpthread

CFLAGS_release := -O2
CFLAGS_debug   := -O0 -DWK_DEBUG
CFLAGS_asan    := -O1 -DWK_DEBUG -fsanitize=address,undefined -fno-sanitize-recover=all
CFLAGS_tsan    := -O1 -DWK_DEBUG -fsanitize=thread
CFLAGS_cov     := -O0 -DWK_DEBUG --coverage
CFLAGS += $(CFLAGS_$(VARIANT))

# ---- one archive a layer ------------------------------------------------------

objs_of    = $(patsubst %.c,$(B)/%.o,$($(1)_srcs))
closure_of = $(sort $(1) $(foreach u,$($(1)_uses),$(call closure_of,$(u))))
# A layer's libraries, users before used: the linker refuses a call that goes up.
libs_of    = $(foreach l,$(call reverse,$(layers)),$(if $(filter $(l),$(call closure_of,$(1))),$(B)/lib$(l).a))
reverse    = $(if $(1),$(call reverse,$(wordlist 2,999,$(1))) $(firstword $(1)))

define layer_rules
$(B)/lib$(1).a: $(call objs_of,$(1))
	$(call say,AR,$$@)
	$(Q)mkdir -p $$(@D) && rm -f $$@ && ar rcs $$@ $$^
endef
$(foreach l,$(layers),$(eval $(call layer_rules,$(l))))

$(B)/%.o: %.c
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

# ---- tests: test_LAYER_* links LAYER and what it uses, nothing above ----------

layer_of_prefix = $(strip $(if $(filter fab,$(1)),fabric,$(if $(filter app,$(1)),appliance,$(if $(filter weka,$(1)),client-lib,$(1)))))
test_layer      = $(call layer_of_prefix,$(word 2,$(subst _, ,$(1))))

define test_rules
$(B)/test/unit/$(1): $(B)/test/unit/$(1).o $(patsubst %.c,$(B)/%.o,$(test_lib_srcs)) $(call libs_of,$(call test_layer,$(1))) $(B)/libnvme.a $(B)/libbase.a
	$(call say,LD,$$@)
	$(Q)$(CC) $(CFLAGS) -o $$@ $$(filter %.o,$$^) $(call libs_of,$(call test_layer,$(1))) $(B)/libnvme.a $(B)/libbase.a -lcriterion $(LDLIBS)
endef
$(foreach t,$(unit_tests),$(eval $(call test_rules,$(t))))

$(B)/test/torture/%: $(B)/test/torture/%.o $(B)/libbase.a
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) -o $@ $^ $(LDLIBS)

.PHONY: all check check-asan check-tsan torture tidy clean help
.DEFAULT_GOAL := all
all: $(foreach l,$(layers),$(B)/lib$(l).a)

check: all tidy $(unit_tests:%=$(B)/test/unit/%)
	$(Q)set -e; for t in $(unit_tests); do $(B)/test/unit/$$t --quiet; done
	@echo "check: $(words $(unit_tests)) suites passed ($(VARIANT))"

torture: $(torture_tests:%=$(B)/test/torture/%)
	$(Q)set -e; for t in $(torture_tests); do $(B)/test/torture/$$t; done

check-asan: ; $(Q)$(MAKE) VARIANT=asan check
check-tsan: ; $(Q)$(MAKE) VARIANT=tsan torture

tidy:
	$(Q)./test/tidy.sh $(foreach l,$(layers) test,"$(l)=$($(l)_uses)")

clean: ; $(Q)rm -rf build
help:  ; @sed -n '1,/^$$/s/^# \{0,1\}//p' Makefile

-include $(shell find $(B) -name '*.d' 2>/dev/null)

# appliance/image/ - a disk image that makes a server an appliance: $(BUILD)/image/weka.raw.
IMAGE_VERSION ?= $(VERSION).$(shell git log -1 --format=%cd --date=format:%Y%m%d%H%M%S 2>/dev/null || echo 0)

.PHONY: image
image: deb
	$(Q)./.ci/deps.sh appliance/image/packages.txt
	$(Q)BUILD='$(BUILD)' VERSION='$(IMAGE_VERSION)' ./appliance/image/build.sh

# Makes it again, and boots it in QEMU: T=boot, T=bad, T=http, T=pxe, T=same, T=upgrade.
image_tests := $(wildcard test/image/image_$(T)*.sh)
image_long  := $(foreach t,upgrade boot bad http,$(filter %_$(t).sh,$(image_tests))) # first, so that none is last alone
.PHONY: test-image
test-image: export TEST_TIMEOUT ?= 7200
test-image: image
	$(Q)./.ci/deps.sh test/image/packages.txt
	$(run) image $(image_long) $(filter-out $(image_long),$(image_tests))

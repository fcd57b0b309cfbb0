# appliance/deb/ - Debian packages of what `make install` installs, in $(BUILD)/deb.  DEB_VERSION is
# the Makefile's version unless it is given.
DEB_VERSION ?= $(VERSION)-1

.PHONY: deb
deb: deps
	$(sub) VARIANT=release all
	$(Q)BUILD='$(BUILD)' DEB_VERSION='$(DEB_VERSION)' ./appliance/deb/build.sh

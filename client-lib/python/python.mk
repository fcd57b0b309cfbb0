# client-lib/python/ - the package weka: one C extension with Python's limited API, which has
# libweka-client in it, so that it needs no other library of ours.
PYTHON       ?= /usr/bin/python3
python_srcs  := $(wildcard client-lib/python/*.c)
python_so    := $(B)/python/weka/_weka.abi3.so
# weka/ as it stands; dist-info/ names the version, and the entry point of fsspec.
python_info  := weka-$(VERSION).dist-info
python_files := $(patsubst client-lib/python/%,$(B)/python/%,$(wildcard client-lib/python/weka/*.py* client-lib/python/weka/py.typed)) \
	$(patsubst client-lib/python/dist-info/%,$(B)/python/$(python_info)/%,$(wildcard client-lib/python/dist-info/*))
# Without Python's headers everything else is built all the same.
python_headers := $(wildcard /usr/include/python3.*/Python.h)
# Asked only when it is needed: it starts Python.
python_include = $(shell $(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))')

$(B)/client-lib/python/%.o: CFLAGS += -isystem $(python_include)

# Nothing but PyInit__weka is seen from outside: our names cannot meet another library's.
$(python_so): $(call objects,$(python_srcs)) $(client_objects) client-lib/python/weka.map
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,--version-script,client-lib/python/weka.map -o $@ \
		$(filter %.o,$^) $(LDLIBS)

$(B)/python/weka/%: client-lib/python/weka/%
	$(Q)mkdir -p $(@D) && cp $< $@
$(B)/python/$(python_info)/%: client-lib/python/dist-info/%
	$(Q)mkdir -p $(@D) && sed 's|@VERSION@|$(VERSION)|' $< >$@

.PHONY: python
python: $(python_so) $(python_files)

# Among the packages of Python, as Debian places those of /usr and of /usr/local.
PYTHON_DIR ?= $(PREFIX)/lib/$(if $(filter /usr,$(PREFIX)),python3,$(shell $(PYTHON) -c \
	'import sys; print("python%d.%d" % sys.version_info[:2])'))/dist-packages
define python_install
	$(Q)set -e; for file in $(patsubst $(B)/python/%,%,$(python_files) $(python_so)); do \
		install -D -m 644 $(R)/python/$$file $(DESTDIR)$(PYTHON_DIR)/$$file; done
endef

# client-lib/python/ - the package weka: one C extension with Python's limited API, which has
# libweka-client in it, so that it needs no other library of ours.
PYTHON      ?= /usr/bin/python3
python_srcs := $(wildcard client-lib/python/*.c)
python_so   := $(B)/python/weka/_weka.abi3.so
python_files := $(patsubst client-lib/python/%,$(B)/python/%,$(wildcard client-lib/python/weka/*))
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

$(python_files): $(B)/python/%: client-lib/python/%
	$(Q)mkdir -p $(@D) && cp $< $@

.PHONY: python
python: $(python_so) $(python_files)

# Among the packages of Python, as Debian places those of /usr and of /usr/local.
PYTHON_DIR ?= $(PREFIX)/lib/$(if $(filter /usr,$(PREFIX)),python3,$(shell $(PYTHON) -c \
	'import sys; print("python%d.%d" % sys.version_info[:2])'))/dist-packages
define python_install
	$(Q)set -e; for file in $(subst $(B),$(R),$(python_files) $(python_so)); do \
		install -D -m 644 $$file $(DESTDIR)$(PYTHON_DIR)/weka/$${file##*/}; done
endef

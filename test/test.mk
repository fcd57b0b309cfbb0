# test/ - everything that is not shipped.  May include any header, private ones too.
test_uses     := base nvme meta fabric appliance client-lib
unit_tests    := $(patsubst test/unit/%.c,%,$(wildcard test/unit/test_*.c))
torture_tests := $(patsubst test/torture/%.c,%,$(wildcard test/torture/torture_*.c))
test_lib_srcs := $(wildcard test/lib/*.c)

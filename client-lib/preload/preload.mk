# client-lib/preload/ - libweka-preload.so: for programs that only read, and that were never changed.
# It has no code of client-lib/ in it: it loads libweka-client.so at the first path of the appliance's.
client-lib/preload_uses := base client-lib

preload_srcs := $(wildcard client-lib/preload/*.c)
preload_so   := $(B)/lib/libweka-preload.so

# Hooks are defined as functions, not as the macros of fortified headers, and take any pointer.
$(B)/client-lib/preload/%.o: CFLAGS += -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=0 -fvisibility=hidden -fno-delete-null-pointer-checks $(if $(findstring clang,$(CC)),-Wno-pointer-bool-conversion,-Wno-nonnull-compare) -Wno-deprecated-declarations

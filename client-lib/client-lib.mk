# client-lib/ - libweka-client: what an application links.
client-lib_uses := base fabric fabric/client
client-lib_srcs := $(wildcard client-lib/*.c)

# Examples include the header as an application does.
$(B)/client-lib/examples/%.o: CFLAGS += -Iclient-lib

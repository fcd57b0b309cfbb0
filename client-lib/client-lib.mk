# client-lib/ - libweka-client: what an application links.
client-lib_uses := base fabric
client-lib_srcs := $(wildcard client-lib/*.c)

# fabric/client/ - the client's end of a connection.
fabric/client_uses := base fabric fabric/wire fabric/link fabric/hello
fabric/client_srcs := $(wildcard fabric/client/*.c)

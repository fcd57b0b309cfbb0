# fabric/hello/ - who is let in: the hello of both ends, keys, connections that join a session.
fabric/hello_uses := base fabric fabric/wire fabric/link
fabric/hello_srcs := $(wildcard fabric/hello/*.c)

# fabric/server/ - the appliance's end: who listens, sessions, requests and payload.
fabric/server_uses := base fabric fabric/wire fabric/link fabric/hello
fabric/server_srcs := $(wildcard fabric/server/*.c)

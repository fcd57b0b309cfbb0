# fabric/wire/ - capsules as bytes, the parser of requests, and addresses.
fabric/wire_uses := base fabric
fabric/wire_srcs := $(wildcard fabric/wire/*.c)

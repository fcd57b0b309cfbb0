# fabric/ - capsules, credits and payload over shm and TCP.
fabric_uses := base
fabric_srcs := $(wildcard fabric/*.c)

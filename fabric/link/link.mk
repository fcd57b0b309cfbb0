# fabric/link/ - transports: shared memory, TCP, TLS, RDMA.
fabric/link_uses := base fabric fabric/wire
fabric/link_srcs := $(wildcard fabric/link/*.c)

# nvme/soft/ - controllers of our own, over a file or memory: the same queues, served by software.
nvme/soft_uses := base nvme nvme/common
nvme/soft_srcs := $(wildcard nvme/soft/*.c)

# nvme/ - a polled user-space NVMe driver, and the soft controller it can drive.
nvme_uses := base
nvme_srcs := $(wildcard nvme/*.c)

# nvme/common/ - names of drives, memory that drives reach, and the thread that watches a controller.
nvme/common_uses := base nvme
nvme/common_srcs := $(wildcard nvme/common/*.c)

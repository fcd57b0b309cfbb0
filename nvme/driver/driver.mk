# nvme/driver/ - queues, commands, resets, and drives over any of these controllers.
nvme/driver_uses := base nvme nvme/common nvme/soft nvme/pci
nvme/driver_srcs := $(wildcard nvme/driver/*.c)

# nvme/pci/ - controllers of this machine through vfio, and those of a vfio-user server.
nvme/pci_uses := base nvme nvme/common
nvme/pci_srcs := $(wildcard nvme/pci/*.c)

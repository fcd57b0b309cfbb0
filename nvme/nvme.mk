# nvme/ - a polled user-space NVMe driver, and soft controllers that it can drive.  Its rooms, lower
# ones first; the headers that lie here say what they share.
nvme := nvme/common nvme/soft nvme/pci nvme/driver
nvme_uses := base
nvme_srcs :=

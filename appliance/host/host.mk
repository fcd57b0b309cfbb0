# appliance/host/ - the process: the machine it is on, its threads, signals, and beginning anew.
appliance/host_uses := base nvme nvme/driver meta meta/run fabric fabric/server appliance/conf appliance/media appliance/core appliance/http
appliance/host_srcs := $(wildcard appliance/host/*.c)

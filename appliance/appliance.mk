# appliance/ - the daemon and wekactl.  Rooms of the daemon, lower ones first: conf, media, core, http, host.
appliance := appliance/conf appliance/media appliance/core appliance/http appliance/host

weka-appliance_main := appliance/host/main.c
weka-appliance_srcs := base/seal_malloc.c
weka-appliance_uses := base nvme nvme/driver meta meta/run fabric fabric/server $(appliance)
weka-appliance_libs := -lmicrohttpd

programs += weka-appliance wekactl

# client-lib/mount/ - weka-mount: the appliance as a directory, for programs that were never changed.
client-lib/mount_uses := base client-lib

programs        += weka-mount
weka-mount_srcs := $(wildcard client-lib/mount/*.c)
weka-mount_uses := $(client-lib/mount_uses)

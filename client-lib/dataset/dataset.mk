# client-lib/dataset/ - datasets and epoch streams: lists of samples in files of the appliance, and
# the order in which a job reads them.
client-lib/dataset_uses := base fabric client-lib
client-lib/dataset_srcs := $(wildcard client-lib/dataset/*.c)

# fabric/ - capsules, credits and payload over rdma, tcp and shm, for both ends.  Its rooms, lower
# ones first; the headers that lie here say what they share.
fabric := fabric/wire fabric/link fabric/hello fabric/client fabric/server
fabric_uses := base
fabric_srcs :=

"""Generated code of the gRPC contract, by version of its package: `psoup_proto.v1` is psoup.v1.

The `.proto` files beside it are the reference, and nothing of `v1` is edited by hand; see protos/README.md. The names
that files of a backup may have are in `file_names`, as a message has a text there.
"""

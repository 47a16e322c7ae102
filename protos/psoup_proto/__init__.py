"""Generated code of the gRPC contract, by version of its package: `psoup_proto.v1` is psoup.v1.

The `.proto` files beside it are the reference. Nothing here is edited by hand; see protos/README.md.
"""

"""The service: the engine behind gRPC, with its limits and its life cycle."""

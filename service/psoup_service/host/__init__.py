"""The host: the threads around one engine. It knows no message of the contract and no gRPC."""

"""The host: threads around one engine. Knows no message of the contract and no gRPC."""

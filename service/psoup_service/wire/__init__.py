"""Between gRPC and the host: limits, requests on their way in, answers on their way out, errors as codes."""

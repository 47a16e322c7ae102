"""The description of the calls as OpenAPI 3.1, made from the descriptors and the comments of the .proto files."""

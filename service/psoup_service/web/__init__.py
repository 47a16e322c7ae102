"""The gateway: the calls of the contract in JSON over HTTP, and the page that makes them."""

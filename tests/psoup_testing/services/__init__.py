"""Services under test, in this process or their own, and the clients and machines around them."""

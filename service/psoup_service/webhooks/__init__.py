"""Webhooks: the changes of an answer become deliveries, which are sent until their receiver has taken them."""

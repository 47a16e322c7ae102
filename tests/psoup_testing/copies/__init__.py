"""Clients with copies of answers, driven at random beside the answers themselves."""

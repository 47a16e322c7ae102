"""Derived streams (`derived.*`): what they cost, beside other engines, and beside a service without them."""

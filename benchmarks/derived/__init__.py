"""Derived streams (`derived.*`): what deriving takes, beside engines that do it, and beside a service without it."""

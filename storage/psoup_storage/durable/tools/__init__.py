"""What operators do with a data directory: look at it, examine it, set damage aside, copy it."""

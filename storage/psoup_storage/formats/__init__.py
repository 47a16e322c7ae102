"""The files that jobs write and services take in: job directories of history and of covers, with their matches."""

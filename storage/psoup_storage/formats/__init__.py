"""What jobs write and services take in: job directories of history and of covers, and the matches in them."""

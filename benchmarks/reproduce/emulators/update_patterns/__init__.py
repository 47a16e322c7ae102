"""Result views of the update-pattern paper: buffers, operators, plans and strategies."""

"""Changes of relations: values, keys and rows with the instants at which they end."""

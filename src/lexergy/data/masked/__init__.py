"""Short sequences whose space can be summed."""

"""How much of a metric's variance each factor explains over a space: Sobol indices."""

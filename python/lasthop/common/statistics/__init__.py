"""Statistics of samples, with their intervals."""

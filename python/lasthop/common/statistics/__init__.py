"""Numbers that describe samples, with their intervals."""

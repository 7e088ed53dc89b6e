"""Code that all other packages share."""

"""A scenario file: its points, its cells, and the assumptions for what it leaves out."""

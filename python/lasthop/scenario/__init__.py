"""A scenario file: its points, its cells and what it leaves out."""

"""The tables of a study, and its published numbers beside them."""

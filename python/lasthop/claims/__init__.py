"""Claims: what a study says of its results, as data, and whether the records bear it out."""

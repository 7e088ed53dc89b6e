"""From measurements of a line to a scenario that behaves like it."""

"""The answer of a run: a table of headline metrics, and which levels differ significantly."""

"""What came out of a run, in short: a table of headline metrics, and which levels differ significantly."""

"""Precision instead of a count: `--until "median(elapsed_s) within 2 %"` (docs/guides/precision.md)."""

"""Metrics: names, units, definitions and labels."""

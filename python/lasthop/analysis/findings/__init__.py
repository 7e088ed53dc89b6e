"""Findings in finished runs: statistics, comparisons, verdicts."""

"""What is found in finished runs: statistics, comparisons, verdicts."""

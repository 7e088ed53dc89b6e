"""Comparing engines: one run on several, flows aligned ACK by ACK, and the difference in every metric."""

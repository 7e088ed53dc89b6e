"""Comparing engines: one run on several of them, flows aligned ACK by ACK, and the difference in every metric."""

"""Engines against each other: one run on several, its flows aligned ACK by ACK, every metric's distance."""

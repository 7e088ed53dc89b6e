"""Verdicts on a scenario's claims, for people and for continuous integration."""

AT_MOST = 1000
"""The most replications per cell if their number depends on the verdicts, by default."""

"""Verdicts on a scenario's claims, for people and for continuous integration."""

"""A results folder: the store of finished runs, and the tables made of it."""

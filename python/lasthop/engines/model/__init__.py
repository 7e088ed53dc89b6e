"""The model engine: lasthop's own TCP, in virtual time."""

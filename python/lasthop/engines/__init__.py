"""The engines, which run the hosts of a scenario."""

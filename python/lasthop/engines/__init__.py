"""What runs the hosts of a scenario."""

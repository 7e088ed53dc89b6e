"""Running a scenario: the plan, what is left of it, and where it runs."""

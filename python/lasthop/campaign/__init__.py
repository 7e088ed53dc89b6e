"""Running a scenario: the plan, the work that is left, and the place where it runs."""

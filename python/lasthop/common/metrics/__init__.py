"""What is measured: names, units, definitions and wording."""

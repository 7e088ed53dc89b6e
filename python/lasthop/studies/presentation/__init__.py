"""How a study's results are summarised and shown, by its `report.toml`."""

"""How a study's results are summarised and shown: what `report.toml` says."""

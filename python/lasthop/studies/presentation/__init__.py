"""How the results of a study are summarised and shown, as its `report.toml` specifies."""

"""The claims of a study: `claims.toml`, `statements.csv` and the language of claims."""

"""What a study claims: `claims.toml`, `statements.csv` and the language of claims."""

"""The live engine: real programs and this machine's TCP behind the same last hop."""

"""The live engine: real programs and this machine's own TCP, behind the same last hop."""

"""Statistics of finished results."""

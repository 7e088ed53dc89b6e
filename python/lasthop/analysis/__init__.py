"""From stored results to what they say."""

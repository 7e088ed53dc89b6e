"""The pytest plugin; docs/guides/ci.md describes its use."""

"""Readers of links in the formats of other emulators, a module for each tool."""

"""The contents of `import lasthop`."""

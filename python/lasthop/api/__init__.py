"""What `import lasthop` offers, and the parts that it shares with the command line."""

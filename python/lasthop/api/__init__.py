"""What `import lasthop` offers, and what it shares with the command line."""

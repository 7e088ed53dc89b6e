"""The command line: each module reads options, calls other packages and prints."""

"""The commands of `lasthop`, and what they share.

Each module reads options, calls the rooms below and prints.
"""

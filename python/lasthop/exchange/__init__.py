"""Links in the formats of other emulators: readers for `lasthop fit`, writers for `lasthop export`."""

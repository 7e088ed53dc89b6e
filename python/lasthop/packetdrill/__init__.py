"""Running packetdrill scripts."""

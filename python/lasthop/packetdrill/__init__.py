"""Scripts of packetdrill, and what hosts make of them."""

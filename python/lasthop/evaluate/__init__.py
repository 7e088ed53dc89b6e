"""The dossier of a congestion control, in the order of RFC 9743."""

"""A laboratory for transport protocols on the slow, lossy last hop."""

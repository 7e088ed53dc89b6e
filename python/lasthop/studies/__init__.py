"""Published studies: their files, their tables and claims, and other results beside them."""

"""Published studies: their files, tables and claims, and other results beside them."""

"""Published studies: their files, and what these claim."""

"""The kernel engine: the real Linux TCP of a guest kernel (User-Mode Linux) in virtual time."""

"""The kernel engine: the Linux TCP of a guest kernel (User-Mode Linux) in virtual time."""

"""What package indexes and installers refuse about a wheel: its archive, the names in it, what its metadata promise."""

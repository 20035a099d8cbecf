"""GF1xx: runtimes that meet in one process."""

"""Reasons for which package indexes and installers refuse a wheel: its archive, names in it, its metadata."""

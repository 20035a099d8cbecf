"""Checks for reasons to refuse a wheel, by package indexes or installers: its archive, names in it, its metadata."""

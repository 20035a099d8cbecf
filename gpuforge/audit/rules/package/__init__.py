"""GF7xx: the wheel as a package."""

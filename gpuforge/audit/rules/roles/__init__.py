"""GF6xx: roles of objects."""

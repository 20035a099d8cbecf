"""GF2xx: who brings the libraries that are NEEDED or opened."""

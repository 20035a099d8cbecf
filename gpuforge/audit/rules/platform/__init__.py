"""GF5xx: platform tags, ABIs and the flags of binaries."""

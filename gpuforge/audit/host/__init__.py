"""Read the files that a manifest calls host-only, completely: what compiled them, what GPU code is in them."""

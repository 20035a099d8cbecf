"""CUDA toolkits: find them, provision them, and know what fits together."""

"""GF4xx: code for GPUs."""

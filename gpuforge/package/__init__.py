"""Makes published wheels from built ones: repair, naming, requirements, deterministic bytes."""

"""From a built wheel to a published one: repair, naming, requirements, deterministic bytes."""

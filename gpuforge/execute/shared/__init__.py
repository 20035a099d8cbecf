"""A store that several machines share: objects behind a read-through cache on each machine."""

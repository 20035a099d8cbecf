"""Container images: the engine that runs them, what is in them, and how gpuforge's own are made."""

"""Container images: the engine that runs them, their content, and how gpuforge's own are made."""

"""CUDA toolkits: where they are found or fetched, and which parts are compatible."""

"""The files that gpuforge puts into wheels beside its runtime: their names and places, and how they are read."""

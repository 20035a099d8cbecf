"""What gpuforge puts into wheels beside its runtime: the names and places of these files, and how they are read."""

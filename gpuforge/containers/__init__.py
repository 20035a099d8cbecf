"""Container images: which there are, how they are made, and whether one holds what a build needs."""

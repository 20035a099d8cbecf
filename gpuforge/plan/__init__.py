"""The plan as resolved: the matrix becomes cells, and cells become actions."""

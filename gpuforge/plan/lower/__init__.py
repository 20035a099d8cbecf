"""From one cell of the matrix to its actions, one file for each kind of action."""

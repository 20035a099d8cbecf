"""The compilers: one file each for how it is found, asked for its version and called."""

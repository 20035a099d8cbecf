"""Work on other machines: client and workers exchange messages through a store that they share."""

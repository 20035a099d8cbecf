"""Work that is done by other machines: what client and workers write for each other into a store that they share."""

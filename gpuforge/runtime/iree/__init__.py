"""Functions of IREE's modules, run by `iree.runtime` on the device of one of its drivers."""

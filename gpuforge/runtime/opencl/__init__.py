"""Kernels of OpenCL, through pyopencl: nothing else imports it, and nothing here does before a kernel is wanted."""

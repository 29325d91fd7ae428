"""What the rules about room on file systems have in common."""

CARRIERS = ("io_error", "enroot_error", "pyxis_error", "apptainer_error", "container_runtime_error")
"""How a write that failed is told further up, by programs and by the runtimes that start them."""

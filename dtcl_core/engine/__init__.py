"""What makes training fast and safe: stacks, streams of views, code of our own for CPUs and GPUs, checkpoints, provenance."""

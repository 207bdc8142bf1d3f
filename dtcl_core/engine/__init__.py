"""What makes training fast and safe: stacks of networks, views as streams, devices, a CPU's own operators, checkpoints, provenance."""

"""What trains beneath the core: devices, views as streams, a CPU's own operators, checkpoints, traces, provenance."""

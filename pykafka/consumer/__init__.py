"""The parts of consumers: the engine, fetch workers, buffers of fetched messages, positions and committed offsets."""

"""The parts of a simulation: programs that use the client, faults that meet them, and the world that they share."""

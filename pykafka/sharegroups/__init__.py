"""Share groups (KIP-932): members that take records of the same partitions, and acknowledge each record by itself."""

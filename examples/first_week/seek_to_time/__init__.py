"""Read what came since a time: of ten messages a minute apart, those of the last minutes."""

"""Topics by a pattern; those of less importance are paused until the others were read."""

"""What consumers are made of: fetch workers, buffers of what was fetched, offsets."""

"""Work in parallel over one consumer: what is handed out, acknowledged out of order, tried again, and committed."""

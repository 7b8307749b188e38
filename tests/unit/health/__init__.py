"""The data of reports, and applications for probes."""

"""How the leader of a group shares out partitions."""

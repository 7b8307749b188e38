"""The part that consumers of a shared topic have in common, and the groups that ZooKeeper keeps."""

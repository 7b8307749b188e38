"""The pages and README: their programs run, and the commands and links that they show are right."""

"""Names of PyKafka 2 that nothing in this package uses: they are loaded when an application asks for one."""

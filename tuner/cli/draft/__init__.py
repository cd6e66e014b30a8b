"""A first space file: what can be found out of a task or a command line, and of this machine."""

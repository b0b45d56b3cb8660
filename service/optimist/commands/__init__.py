"""The subcommands of the `optimist` command, each in a module that is imported where it is called."""

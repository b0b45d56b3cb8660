"""Commands that goals bring. A module that registers a goal may add its own."""

COMMANDS = ["optimist.routing.command:route"]
"""Function of each as "module:function". `optimist` imports it when it is called."""

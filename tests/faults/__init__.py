"""Breaking things: real processes killed, stopped and cut off while workers run, and what is left checked."""

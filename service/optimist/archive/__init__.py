"""An experiment as one file: its format, export and import."""

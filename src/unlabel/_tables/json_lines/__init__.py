"""JSON lines: forms of scores, read and written in their place."""

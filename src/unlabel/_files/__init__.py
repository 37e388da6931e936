"""Files that are written whole or not at all, and the filter's own file."""

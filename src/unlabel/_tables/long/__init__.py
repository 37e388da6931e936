"""Long tables, with one row per id and label."""

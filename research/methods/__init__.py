"""The compared methods, one per file. Each takes a task and returns an outcome."""

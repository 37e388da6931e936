"""Files of tables and pipes, read and written batch by batch."""

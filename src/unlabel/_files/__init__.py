"""Write files whole or not at all, and read and write the filter's own file."""

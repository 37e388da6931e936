"""Plans put to use: the outcome for a model's labels, and plans checked, composed and compared."""

"""What the experiments store: their outputs, their facts, and notes on both."""

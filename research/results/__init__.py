"""The stored results of the experiments: outputs, facts, and notes on both."""

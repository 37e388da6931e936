"""The method on arrays: rows taken apart, the chain of removals, the temperature."""

"""Tables with confidences in their columns."""

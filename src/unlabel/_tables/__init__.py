"""Tables of confidences: formats, layouts, and filters fitted on and applied to them in batches."""

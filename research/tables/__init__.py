"""The paper's tables beside ours: from stored outputs to Markdown, CSV and HTML."""

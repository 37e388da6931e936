"""A filter in front of a model server that speaks the Open Inference Protocol (v2).

`ServedFilter` does the work without HTTP; the command `unlabel serve` puts it behind a port.
"""

from unlabel.errors import needs_extra

with needs_extra("serve"):
    import msgspec  # noqa: F401

from unlabel.serve.served_filter import ServedFilter

__all__ = ["ServedFilter"]

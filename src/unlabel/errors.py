"""The one exception for what a user did wrong."""


class UnlabelError(ValueError):
    """What a user did wrong, in one sentence that names it and says what to do."""

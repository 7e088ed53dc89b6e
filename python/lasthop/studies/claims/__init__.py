"""Claims: what a study says of its results, as data, and whether the records support it."""

UPHELD = "upheld"
NOT_UPHELD = "not upheld"
UNDECIDED = "undecided"
UNCOMPUTABLE = "uncomputable"
NOT_RUN = "not run"
VERDICTS = (UPHELD, NOT_UPHELD, UNDECIDED, UNCOMPUTABLE, NOT_RUN)
UNANSWERED = "unanswered"
"""Of a statement that no claim is about."""

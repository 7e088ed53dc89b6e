"""Verdicts on claims: whether the records support them."""

UPHELD = "upheld"
NOT_UPHELD = "not upheld"
UNDECIDED = "undecided"
UNCOMPUTABLE = "uncomputable"
NOT_RUN = "not run"
VERDICTS = (UPHELD, NOT_UPHELD, UNDECIDED, UNCOMPUTABLE, NOT_RUN)
UNANSWERED = "unanswered"
"""Verdict on a statement that no claim is about."""

"""What can be wrong with an element, by the numbers of kernels/problem.h."""

NOT_AN_ELLIPSE, NOT_FINITE = 1, 2
_TEXTS = {
    NOT_AN_ELLIPSE: "the eccentricity of an ellipse is at least 0 and less than 1",
    NOT_FINITE: "the mean anomaly is not finite",
}


def problem(kind, element, place="the native loop"):
    """Return the exception for one element, with the place that found it."""
    return ValueError(f"element {element}: {_TEXTS[kind]} ({place})")

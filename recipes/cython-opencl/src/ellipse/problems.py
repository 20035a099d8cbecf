"""What can be wrong with an element, by the numbers of kernels/anomaly.cl."""

NOT_AN_ELLIPSE, NOT_FINITE = 1, 2
TEXTS = {
    NOT_AN_ELLIPSE: "the eccentricity of an ellipse is at least 0 and less than 1",
    NOT_FINITE: "the mean anomaly is not finite",
}


def problem(kind, element):
    """Return the native loop's exception for one element."""
    return ValueError(f"element {element}: {TEXTS[kind]} (the native loop)")

from dice._core import status

__all__ = ["status"]

"""The methods, by name. To add one: a file here, and an entry in `METHODS`."""

from .base import Algorithm
from .dspdc import DSPDC, SPDC
from .sdca import SDCA

__all__ = ["DSPDC", "METHODS", "SDCA", "SPDC", "Algorithm"]

METHODS = {cls.name: cls for cls in (DSPDC, SPDC, SDCA)}

"""How much work a set-up takes, in multiply-adds, as told by the code that does it."""

import threading
from contextlib import contextmanager

_open = threading.local()


@contextmanager
def metered():
    """A list of what is spent within, in this thread; meters may be nested."""
    outer, _open.spent = getattr(_open, "spent", None), []
    try:
        yield _open.spent
    finally:
        if outer is not None:
            outer.extend(_open.spent)
        _open.spent = outer


def spend(multiply_adds):
    """Tell the meter, if there is one."""
    spent = getattr(_open, "spent", None)
    if spent is not None:
        spent.append(float(multiply_adds))

"""A bar for work that turns out to be long."""

import sys
import time

#: Work that ends sooner shows nothing.
SECONDS = 1.0


def tracked(items, what):
    """Go through items; on a terminal, show a bar once a second has passed.

    Parameters
    ----------
    items : sequence
    what : str
        What is being done.
    """
    if not sys.stderr.isatty():
        yield from items
        return
    begun, bar, task = time.monotonic(), None, None
    try:
        for k, item in enumerate(items):
            if bar is None and time.monotonic() - begun > SECONDS:
                bar = _bar()
                task = bar.add_task(what, total=len(items))
            if bar is not None:
                bar.update(task, completed=k)
            yield item
    finally:
        if bar is not None:
            bar.stop()


def _bar():
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True), transient=True)
    bar.start()
    return bar

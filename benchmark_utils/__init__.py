"""Run by benchopt before it loads a plug-in: a clone works without being installed."""

import sys
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[1])

if ROOT not in sys.path:
    # At the end, so that an installed package, or one on PYTHONPATH, comes first.
    sys.path.append(ROOT)

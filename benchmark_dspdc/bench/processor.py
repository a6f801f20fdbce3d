"""What this machine is, as times are compared on the same kind only, and what it has used."""

import platform
import re
import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path


def this_processor():
    """This machine's processor, as far as it can be told.

    On virtual machines many processors are called "AMD EPYC"; Linux has numbers that tell them
    apart.
    """
    if platform.system() == "Darwin":
        with suppress(OSError, subprocess.SubprocessError):
            command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
            return done.stdout.strip()
    with suppress(OSError):
        # ARM has other words, and no name among them.
        found = dict(re.findall(
            r"^(model name|cpu family|model|stepping)\s*:\s*(.+?)\s*$",
            Path("/proc/cpuinfo").read_text(), re.MULTILINE,
        ))
        if name := found.pop("model name", None):
            numbers = (f"{word.split()[-1]} {found[word]}" for word in sorted(found))
            return " ".join([name, *numbers])
    return platform.processor() or platform.machine()


def peak_memory():
    """The most bytes that this process has had in memory."""
    # The system counts in kilobytes, that of macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

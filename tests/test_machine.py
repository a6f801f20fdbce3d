import platform
import subprocess
from pathlib import Path

from benchmark_dspdc.bench.processor import this_processor

LINUX = """processor\t: {k}
vendor_id\t: AuthenticAMD
cpu family\t: 25
model\t\t: 17
model name\t: AMD EPYC
stepping\t: 1
power management:

"""


def test_processors_of_one_name_are_told_apart_by_their_numbers(monkeypatch):
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(
        Path, "read_text", lambda self: "".join(LINUX.format(k=k) for k in range(2))
    )
    assert this_processor() == "AMD EPYC family 25 model 17 stepping 1"


def test_where_linux_names_none_and_on_macos(monkeypatch):
    def sysctl(command, **options):
        assert command[1:] == ["-n", "machdep.cpu.brand_string"]
        return subprocess.CompletedProcess(command, 0, "Apple M2\n", "")

    def no_sysctl(command, **options):
        raise FileNotFoundError(command[0])

    assert this_processor()
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(Path, "read_text", lambda self: "processor\t: 0\nCPU part\t: 0xd0c\n")
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert this_processor() == "aarch64"
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(subprocess, "run", sysctl)
    assert this_processor() == "Apple M2"
    monkeypatch.setattr(subprocess, "run", no_sysctl)
    assert this_processor() == "aarch64"

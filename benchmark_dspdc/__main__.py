import sys

try:
    from .cli import main

    code = main()
except KeyboardInterrupt:
    # While modules were loaded: a command that has begun ends by itself.
    print("benchmark_dspdc: interrupted", file=sys.stderr)
    code = 130
raise SystemExit(code)

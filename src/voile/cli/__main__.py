"""`python -m voile.cli`, the same as `voile`."""

from voile.cli import main

main()

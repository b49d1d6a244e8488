"""`python -m voile.cli`, the same as `voile`."""

from voile.cli.app import main

main()

"""The Python door: voile with objects in memory, in a notebook or a program.

Its public names are those of `voile` itself. Each fills a command and calls its handler, as the
command line does; nothing about privacy is decided here.
"""

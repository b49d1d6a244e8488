"""What can be asked of voile: one frozen model for each use case.

The fields of a command are the options of the command line, a table of a TOML file and the JSON
body of a request. Each is described once, and belongs either to the caller or to the custodian.
Importing commands loads nothing heavy: `voile.app.calls.handle` finds the handler.
"""

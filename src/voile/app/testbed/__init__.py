"""A SuperLink and nodes on this machine, for trying out and for tests only.

- `start_testbed`: certificates, keys, invented hospitals, and the processes of a federation
- `stop_testbed`: ends those processes; files stay
"""

from voile.app.testbed.testbed import LocalDeployment, start_testbed, stop_testbed

__all__ = ["LocalDeployment", "start_testbed", "stop_testbed"]

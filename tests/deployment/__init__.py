"""Real deployments on this machine: a SuperLink with TLS and authentication, nodes as processes."""

"""One file per job that people come for."""

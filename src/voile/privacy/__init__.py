"""Mechanisms, sensitivities, accounting and calibration."""

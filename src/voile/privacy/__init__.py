"""Mechanisms, sensitivities, accounting and calibration.

- how far can one record move what I publish? `voile.privacy.sensitivity`
- add noise, choose, or answer at random: `voile.privacy.mechanisms`
- what was released, as data that are stored for years: `voile.privacy.events`
- what do several releases amount to, and may there be one more? `voile.privacy.accounting`
- the smallest noise for a target: `voile.privacy.calibration`
- make released figures agree, at no cost: `voile.release.refining`
"""

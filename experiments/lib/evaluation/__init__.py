"""Measures of published experiments.

- are two sets of explanations alike? `agreement`
- do they say what the model does? `faithfulness`
- is a ranked list good? `ranking`
- do repeated runs say the same? `runs`
- a published score, with its flaw: `privacy_adjusted`
"""

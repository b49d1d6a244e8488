"""Evidence for people who answer for data or for a model: documents made of lines.

A line is *present* (it links to a record of the log, or names who stated it), *missing* (it says
what would make it), or *for you to state*. Nothing here judges whether a law is met.

- what a line is: `lines`
- what the log holds: `facts`
- the documents: `technical`, `protection`, `controls`; a page for each decision: `decisions`
- beside them: a card for each model (`cards`), and its signature (`signatures`)
"""

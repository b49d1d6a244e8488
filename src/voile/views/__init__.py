"""What people are shown: text, pages and pictures. Views read results, and nothing else.

- words for guarantees, explanations and budgets: `voile.views.text`
- pages, from the templates beside it: `voile.views.pages`, `voile.views.reports`
- pictures: `voile.views.plots`, in public `voile.plots`

`voile.core.rendering` finds the view of a result; a view of your own is an entry point of the group
`voile.views`.
"""

"""What is trained across parties, on the runtime of `voile.federation`.

- `private_explainer`: FastSHAP++, and explanations that follow from it for free

They share: a client's rows and networks over them (`tables`), what networks learn (`objectives`),
and a task that trains one with differential privacy (`network_task`).
"""

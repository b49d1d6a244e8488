"""What is trained across parties, on the runtime of `voile.federation`.

- `private_explainer`: FastSHAP++, and explanations that follow from it for free
- `logistic_regression`: one private linear model, explained over public rows
- `trusted_averaging`: FedXChain, a model averaged by trust

They share: a client's rows and networks over them (`tables`), what networks learn (`objectives`),
a task that trains one with differential privacy (`network_task`), what is public beforehand
(`facts`), and what may be promised before and after (`promises`).
"""

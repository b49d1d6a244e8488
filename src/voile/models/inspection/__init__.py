"""What models are made of: whether they are known to treat the rows of a batch one by one.

Known means steady, too: nothing makes a jump of the rounding that depends on a row's place.

`estimators`  scikit-learn's own, and what they are composed of; `estimator_rules` for rounding
`layers`      `torch.nn.Sequential` of listed layers
`graphs`      ONNX graphs: `operators` for the axes they work along, `rounding` for their numbers
"""

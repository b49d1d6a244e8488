"""What models are made of: whether they are known to treat the rows of a batch one by one.

`estimators`  scikit-learn's own, and what they are composed of
`layers`      `torch.nn.Sequential` of listed layers
`graphs`      ONNX graphs of listed operators, with the axes they work along
"""

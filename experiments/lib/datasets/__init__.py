"""Public data sets for experiments, and how to spread rows.

Load what scikit-learn comes with:
    `scikit_learn("breast_cancer")`, also iris, wine, diabetes, digits.

Load public data sets from the folder that the environment variable VOILE_DATA names:
    tables (`voile.datasets.Dataset`): `dutch_census`, `acs_income`, `acs_employment`, `adult`,
    `diabetes_130`;
    ratings (`Ratings`): `movielens_100k`, `movielens_1m`, `amazon`, `amazon_electronics`, `yelp`;
    pictures (`Images`): `mnist_by_writer`, `cifar10`.
    `catalogue.SOURCES` knows where each is from and its checksums; `loaders.schema_of` gives the
    public schema of a table without loading it.

Spread rows over clients (`partitions.Partition`):
    `by_column` (state, site, writer, a published split), `at_random`, `by_label` (Dirichlet),
    `evenly_by_label` (balanced Dirichlet).
"""

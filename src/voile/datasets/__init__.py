"""Data: files of your own, invented hospitals, public data sets, and how to spread rows.

Read a file:
    `read_table` gives raw values by column; a `voile.core.schema.Schema` reads them. Of protected
    records `read_protected_table` does so without ever telling what one of them holds.

Invent data whose truth is known:
    `clinic_federation` gives a `ClinicFederation` with its `risk` and public reference rows.

Load what scikit-learn comes with:
    `scikit_learn("breast_cancer")`, also iris, wine, diabetes, digits.

Load public data sets from the folder that the environment variable VOILE_DATA names:
    tables (`Dataset`): `dutch_census`, `acs_income`, `acs_employment`, `adult`, `diabetes_130`;
    ratings (`Ratings`): `movielens_100k`, `movielens_1m`, `amazon`, `amazon_electronics`, `yelp`;
    pictures (`Images`): `mnist_by_writer`, `cifar10`.
    `SOURCES` knows where each is from and its checksums; `schema_of` gives the public schema of a
    table without loading it.

Spread rows over clients (`Partition`):
    `by_column` (state, site, writer, a published split), `at_random`, `by_label` (Dirichlet),
    `evenly_by_label` (balanced Dirichlet).
"""

from voile.datasets.catalogue import SOURCES, Source
from voile.datasets.clinic import ClinicFederation, clinic_federation, risk
from voile.datasets.dataset import Dataset
from voile.datasets.loaders import (
    Images,
    Ratings,
    acs_employment,
    acs_income,
    adult,
    amazon,
    amazon_electronics,
    cifar10,
    diabetes_130,
    dutch_census,
    mnist_by_writer,
    movielens_1m,
    movielens_100k,
    schema_of,
    scikit_learn,
    yelp,
)
from voile.datasets.partitions import (
    Partition,
    at_random,
    by_column,
    by_label,
    evenly_by_label,
)
from voile.datasets.tables import read_protected_table, read_table

__all__ = [
    "SOURCES",
    "ClinicFederation",
    "Dataset",
    "Images",
    "Partition",
    "Ratings",
    "Source",
    "acs_employment",
    "acs_income",
    "adult",
    "amazon",
    "amazon_electronics",
    "at_random",
    "by_column",
    "by_label",
    "cifar10",
    "clinic_federation",
    "diabetes_130",
    "dutch_census",
    "evenly_by_label",
    "mnist_by_writer",
    "movielens_1m",
    "movielens_100k",
    "read_protected_table",
    "read_table",
    "risk",
    "schema_of",
    "scikit_learn",
    "yelp",
]

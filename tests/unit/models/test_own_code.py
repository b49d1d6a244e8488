"""A digest covers somebody's own classes and modules: each edit shows, and nothing else does."""

from __future__ import annotations

import importlib
import math
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from voile.core.errors import InvalidInput
from voile.core.schema import Schema
from voile.models import digest_of, wrap

Digest = Callable[..., str]
CASES = {
    "a method": "class Risk:\n    def __call__(self, rows):\n        return rows[:, 0] * 2.0\n"
    "risk = Risk()\n",
    "a method of a base": "class Base:\n    def score(self, rows):\n"
    "        return rows[:, 0] * 2.0\n"
    "class Risk(Base):\n    def __call__(self, rows):\n        return self.score(rows)\n"
    "risk = Risk()\n",
    "an attribute of a class": "class Risk:\n    weight = 2.0\n"
    "    def __call__(self, rows):\n        return rows[:, 0] * self.weight\n"
    "risk = Risk()\n",
    "a property": "class Risk:\n    @property\n    def weight(self):\n        return 2.0\n"
    "    def __call__(self, rows):\n        return rows[:, 0] * self.weight\n"
    "risk = Risk()\n",
    "a static method": "class Risk:\n    @staticmethod\n    def weight():\n        return 2.0\n"
    "    def __call__(self, rows):\n        return rows[:, 0] * self.weight()\n"
    "risk = Risk()\n",
    "a metaclass": "class Kind(type):\n    def weight(cls):\n        return 2.0\n"
    "class Risk(metaclass=Kind):\n    def __call__(self, rows):\n        return rows[:, 0] * "
    "type(self).weight()\nrisk = Risk()\n",
    "a class that a function names": "class Score:\n    def of(self, rows):\n"
    "        return rows[:, 0] * 2.0\ndef risk(rows):\n    return Score().of(rows)\n",
    "a class that derives from a list": "class Weights(list):\n    def first(self):\n"
    "        return self[0] * 2.0\nweights = Weights([1.0])\n"
    "def risk(rows):\n    return rows[:, 0] * weights.first()\n",
    "an attribute of such a list": "class Weights(list):\n    pass\nweights = Weights([1.0])\n"
    "weights.scale = 2.0\ndef risk(rows):\n    return rows[:, 0] * weights.scale\n",
    "a class that derives from a float": "class Weight(float):\n    def of(self, rows):\n"
    "        return rows[:, 0] * 2.0\nweight = Weight(1.0)\n"
    "def risk(rows):\n    return weight.of(rows)\n",
    "the value of a member of an enum": "import enum\nclass Weight(enum.Enum):\n    HIGH = 2.0\n"
    "high = Weight.HIGH\ndef risk(rows):\n    return rows[:, 0] * high.value\n",
    "an object known by its name": "class Risk:\n    def __reduce__(self):\n        return 'risk'\n"
    "    def __call__(self, rows):\n        return rows[:, 0] * 2.0\nrisk = Risk()\n",
    "a cached function": "from functools import lru_cache\n@lru_cache\ndef weight():\n"
    "    return 2.0\ndef risk(rows):\n    return rows[:, 0] * weight()\n",
    "a function in a library's decorator": "from contextlib import contextmanager\n"
    "class Risk:\n    @contextmanager\n    def weight(self):\n        yield 2.0\n"
    "    def __call__(self, rows):\n        with self.weight() as weight:\n"
    "            return rows[:, 0] * weight\nrisk = Risk()\n",
    "a pattern": "import re\nclass Risk:\n    pattern = re.compile('2.0')\n"
    "    def __call__(self, rows):\n        return rows[:, 0]\nrisk = Risk()\n",
    "a global of a comprehension": "WEIGHT = 2.0\ndef risk(rows):\n"
    "    return [row[0] * WEIGHT for row in rows]\n",
    "a global of an inner function": "WEIGHT = 2.0\ndef risk(rows):\n"
    "    return (lambda: rows[:, 0] * WEIGHT)()\n",
    "an attribute of a function": "def risk(rows):\n    return rows[:, 0] * risk.weight\n"
    "risk.weight = 2.0\n",
    "a table by its bound method": "weight = {'age': 2.0}.get\ndef risk(rows):\n"
    "    return rows[:, 0] * weight('age')\n",
    "a data class": "from dataclasses import dataclass\n@dataclass\nclass Risk:\n"
    "    weight: float = 1.0\n    def __call__(self, rows):\n"
    "        return rows[:, 0] * self.weight * 2.0\nrisk = Risk()\n",
    "an abstract class": "from abc import ABC, abstractmethod\nclass Base(ABC):\n"
    "    @abstractmethod\n    def score(self, rows): ...\nclass Risk(Base):\n"
    "    __slots__ = ('a',)\n    def score(self, rows):\n        return rows[:, 0] * 2.0\n"
    "    def __call__(self, rows):\n        return self.score(rows)\nrisk = Risk()\n",
    "an estimator": "from sklearn.base import BaseEstimator, ClassifierMixin\n"
    "class Risk(ClassifierMixin, BaseEstimator):\n    def predict(self, rows):\n"
    "        return rows[:, 0] * 2.0\nrisk = Risk()\n",
    "a network": "import torch\nclass Half(torch.nn.Module):\n    def forward(self, rows):\n"
    "        return self.score(rows)\n    def score(self, rows):\n        return rows[:, 0] * 2.0\n"
    "risk = torch.nn.Sequential(Half()).eval()\n",
    "a setting of a network": "import torch\nclass Half(torch.nn.Module):\n"
    "    def __init__(self, weight):\n        super().__init__()\n        self.weight = weight\n"
    "    def forward(self, rows):\n        return rows[:, 0] * self.weight\n"
    "risk = Half(2.0).eval()\n",
}
HELPERS = "import numpy as np\nUNUSED = 0\nB = 2.0\n\ndef score(rows):\n    return rows[:, 0] * B\n"
REFERENCES = {
    "a function of a module": "import helpers\ndef risk(rows):\n    return helpers.score(rows)\n",
    "a constant of a module": "import helpers\ndef risk(rows):\n"
    "    return rows[:, 0] * helpers.B\n",
    "a module handed on": "import helpers\ndef of(module, rows):\n    return module.score(rows)\n"
    "def risk(rows):\n    return of(helpers, rows)\n",
    "a module that an object holds": "import helpers\nclass Risk:\n    def __init__(self):\n"
    "        self.how = helpers\n    def __call__(self, rows):\n"
    "        return self.how.score(rows)\n"
    "risk = Risk()\n",
    "an attribute by its text": "import helpers\ndef risk(rows):\n"
    "    return getattr(helpers, 'score')(rows)\n",
    "an import inside": "def risk(rows):\n    import helpers\n    return helpers.score(rows)\n",
    "a name imported inside": "def risk(rows):\n    from helpers import score\n"
    "    return score(rows)\n",
}
NAMES = ("scoring", "helpers", "clinic")
PACKAGE = ("__init__", "rules", "training", "model")


@pytest.fixture
def digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Digest]:
    """Of `scoring.risk`, with these sources, as a new process would see it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def forget() -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] in NAMES]:
            del sys.modules[name]
        importlib.invalidate_caches()

    def of(scoring: str, **others: str) -> str:
        for name, source in {"scoring": scoring, **others}.items():
            home = tmp_path / "clinic" if name in PACKAGE else tmp_path
            home.mkdir(exist_ok=True)
            (home / f"{name}.py").write_text(source)
        forget()
        return wrap(importlib.import_module("scoring").risk).digest

    yield of
    forget()


@pytest.mark.parametrize("name", CASES)
def test_an_edit_of_an_own_class_or_function_shows(digest: Digest, name: str) -> None:
    source = CASES[name]
    before = digest(source)
    assert digest(source.replace("2.0", "3.0")) != before
    assert digest("# another line\n\n" + source) == before


@pytest.mark.parametrize("name", REFERENCES)
def test_an_edit_of_an_own_module_shows(digest: Digest, name: str) -> None:
    source = REFERENCES[name]
    before = digest(source, helpers=HELPERS)
    assert digest(source, helpers=HELPERS.replace("2.0", "3.0")) != before
    assert digest(source, helpers=HELPERS.replace("UNUSED = 0", "UNUSED = 1")) == before


@pytest.mark.parametrize("how", ["import clinic.rules", "from clinic import rules"])
def test_a_package_is_what_is_named_of_it_whoever_else_was_imported(
    digest: Digest, how: str
) -> None:
    whole = "clinic.rules" if how.startswith("import") else "rules"
    scoring = f"{how}\ndef risk(rows):\n    return {whole}.score(rows)\n"
    files = {"__init__": "", "rules": HELPERS, "training": "B = 1\n"}
    before = digest(scoring, **files)
    assert digest("import clinic.training\n" + scoring, **files) == before
    changed = files | {"rules": HELPERS.replace("2.0", "3.0")}
    assert digest(scoring, **changed) != before


def test_a_relative_import_inside_a_function_is_followed(digest: Digest) -> None:
    model = "def risk(rows):\n    from . import rules\n    return rules.score(rows)\n"
    files = {"__init__": "", "model": model, "rules": HELPERS}
    scoring = "from clinic.model import risk\n"
    before = digest(scoring, **files)
    changed = files | {"rules": HELPERS.replace("2.0", "3.0")}
    assert digest(scoring, **changed) != before


def test_classes_and_modules_that_refer_to_each_other_end(digest: Digest) -> None:
    scoring = (
        "import scoring, helpers\nclass Risk:\n    other = helpers\n    def me(self):\n"
        "        return Risk, scoring.Risk, helpers.scoring\n"
        "    def __call__(self, rows):\n        return self.me()\nRisk.itself = Risk\n"
        "Risk.one = risk = Risk()\n"
    )
    assert len(digest(scoring, helpers="import scoring\n")) == 64


@pytest.mark.parametrize(
    "source",
    [
        "import threading\nclass Risk:\n    lock = threading.Lock()\n"
        "    def __call__(self, rows):\n        return rows[:, 0]\nrisk = Risk()\n",
        "import numpy as np\nscore = np.frompyfunc(lambda x: x * 2, 1, 1)\n"
        "def risk(rows):\n    return score(rows[:, 0])\n",
        "chain = None\nfor _ in range(5000):\n    chain = [chain]\n"
        "def risk(rows):\n    return chain\n",
    ],
    ids=["a lock", "a function inside a ufunc", "too deep"],
)
def test_what_cannot_be_looked_into_is_refused(digest: Digest, source: str) -> None:
    with pytest.raises(InvalidInput, match="digest="):
        digest(source)


def test_what_a_library_offers_is_known_by_its_name() -> None:
    """As written by a version that wrote every class by name: digests of before stay."""
    of_libraries = [np, np.tanh, Fraction, Fraction(1, 2), OrderedDict(a=1), math.exp, Schema]
    before = "74f89eaf15eeacae36544fb27314d12eaa178c18787febc7aaa1ff4b8912ec09"
    assert digest_of(of_libraries) == before


def test_settings_that_torch_does_not_print_count() -> None:
    import torch

    def attention(heads: int) -> Any:
        torch.manual_seed(0)
        return torch.nn.MultiheadAttention(4, heads).eval()

    assert wrap(attention(2)).digest == wrap(attention(2)).digest
    assert wrap(attention(2)).digest != wrap(attention(1)).digest


def test_a_hook_on_a_network_counts() -> None:
    import torch

    network = torch.nn.Sequential(torch.nn.Linear(2, 1)).eval()
    before = wrap(network).digest
    network.register_forward_hook(lambda _, __, output: output * 2)
    assert wrap(network).digest != before


def test_own_classes_have_one_digest_in_every_process(tmp_path: Path) -> None:
    """Compiled just now, and read from what the first run has compiled."""
    (tmp_path / "helpers.py").write_text(HELPERS)
    source = CASES["an abstract class"] + "import helpers\nRisk.how = helpers.score\n"
    (tmp_path / "scoring.py").write_text(
        source + "import re, logging\nRisk.pattern = re.compile('x')\n"
        "Risk.names = ('a', 'b')\nRisk.set = {'x', 'y'}\nRisk.log = logging.getLogger('x')\n"
    )
    code = "from voile.models import *; print(digest_of(load_model('scoring:risk')))"
    said = [
        subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(3)
    ]
    assert len(set(said)) == 1

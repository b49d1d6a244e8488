"""A trained recommender as a folder: what may be shown, and nothing of a single user.

    recommender.json        format, version, budget, charges, guarantee, digest of every other file
    catalogue.json          items and their public features
    moments.safetensors     popularity with its noise, and the Gram matrix likewise, which is absent
                            where popularity got the whole budget; of a network, its parameters

Earlier versions kept each of the moments in a file of its own, `popularity.npy` and `gram.npy`.

Models are made from the moments when it is opened. The manifest is written last; until then one
without anything but format and version says whose folder it is.

Compatibility promise: a recommender of version n is read by every later voile.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

from voile.app.artefact_manifest import (
    CATALOGUE,
    MOMENTS,
    RECOMMENDER,
    OwnFolder,
    check_files,
)
from voile.app.assessment_file import ASSESSMENT
from voile.core import array_file
from voile.core.atomic_file import replace_file
from voile.core.choices import chosen
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Guarantee, Relation
from voile.core.input_file import damaged, read_file, read_json
from voile.recommenders import (
    Catalogue,
    ItemGram,
    ItemMoments,
    ItemPopularity,
    LinearRecommender,
    MomentsBudget,
    PopularityRecommender,
    Recommender,
    TrainedNetwork,
)
from voile.recommenders.kinds import DEFAULT, MODELS, FromHistories, HistoryNetwork, model_of
from voile.recommenders.moments import packed, unpacked
from voile.recommenders.networks import fresh_network
from voile.records.storage import Storage
from voile.release import PostProcessed
from voile.training.private import PrivateSteps

FORMAT: Final = "voile recommender"
VERSION: Final = 3
"""The first version had no model but the default, the second no noise in shares; each is written
where it suffices."""
_MOMENTS_FILE: Final = "voile item moments"
_STEPS: Final = ("clipping_norm", "noise_multiplier", "sampling_rate", "steps")
_EARLIER: Final = ("popularity.npy", "gram.npy")
_OWN: Final = (RECOMMENDER, CATALOGUE, MOMENTS, *_EARLIER, ASSESSMENT)
"""What may lie in such a folder, findings of `voile assess` among it."""
_FOLDER: Final = OwnFolder(
    "recommender", "voile recommend train", RECOMMENDER, FORMAT, VERSION, _OWN
)


@dataclass(frozen=True, eq=False)
class TrainedRecommender:
    """What was paid for, and the model made from it.

    Args:
        moments: frozen, like everything here; of a network, popularity and its parameters.
        kind: which model, one of `voile.recommenders.kinds.MODELS`.
        federation: whose parties paid for it, each in its own books; empty for one account.
        paid_in: the books in which it was looked up already who paid, and who that was.
        free: releases toward users themselves that were built already, by what is asked. They are
            frozen, and the same for every user.
    """

    moments: ItemMoments | HistoryNetwork
    kind: str = DEFAULT
    federation: str = ""
    paid_in: MutableMapping[Storage, str] = field(
        init=False, repr=False, default_factory=WeakKeyDictionary
    )
    free: dict[Hashable, PostProcessed] = field(init=False, repr=False, default_factory=dict)

    @property
    def catalogue(self) -> Catalogue:
        return self.moments.catalogue

    @property
    def guarantee(self) -> Guarantee:
        return self.moments.guarantee

    @cached_property
    def model(self) -> Recommender:
        return model_of(chosen(MODELS, self.kind, "model"), self.moments)

    @property
    def linear(self) -> LinearRecommender:
        """The model, where reasons are sums; refused elsewhere."""
        if isinstance(self.model, LinearRecommender):
            return self.model
        if isinstance(self.model, PopularityRecommender):
            raise InvalidInput(
                "this recommender learned popularity only, because its budget was too small: it "
                "cannot explain anything about a single user"
            )
        raise Refused(
            f"reasons of the model {self.kind!r} are for the user herself, by items or labels: "
            f"others are told those of {DEFAULT!r} or 'mf'"
        )

    @property
    def charges(self) -> tuple[str, ...]:
        """The ledger's names for what paid for it."""
        return tuple(each.charge for each in self.moments.artefacts if each.charge)

    @cached_property
    def packed(self) -> tuple[bytes, ...]:
        """The moments as the ledger keeps them."""
        return tuple(map(packed, self.moments.arrays.values()))

    @cached_property
    def digest(self) -> str:
        """Of the moments and the catalogue."""
        parts = [self.catalogue.digest.encode(), *self.packed]
        return hashlib.sha256(b"\n".join(parts)).hexdigest()


def check_place(folder: Path) -> None:
    """Refuse a place where nothing could be written, before anything is charged for it."""
    _FOLDER.check_place(folder)


def check_not_inside(folder: Path, outputs: Iterable[Path]) -> None:
    """Refuse to write what one user is told into a recommender, which may be shown to everybody."""
    for path in outputs:
        if folder.resolve() in path.resolve().parents:
            raise InvalidInput(
                f"{path}: lies in the recommender {folder}, which may be shown to everybody and "
                "holds nothing of a single user; choose another place"
            )


def save_recommender(
    moments: ItemMoments | HistoryNetwork, folder: Path, kind: str = DEFAULT
) -> TrainedRecommender:
    """Write it; durable when this returns."""
    place = replace(_FOLDER, version=_version(moments, kind))
    place.begin(folder, stale=_EARLIER)
    trained = TrainedRecommender(moments, kind)
    _write_catalogue(moments.catalogue, folder / CATALOGUE)
    array_file.write(folder / MOMENTS, _MOMENTS_FILE, moments.arrays, {})
    budget = moments.budget
    place.finish(
        folder,
        {
            "budget": {
                "users": budget.users,
                "items": budget.items,
                "relation": str(budget.relation),
                "mu": budget.mu,
                "parties": budget.parties,
                **({"shares": budget.shares} if budget.shares > 1 else {}),
            },
            **_model_entry(moments, kind, place.version),
            "charges": list(trained.charges),
            "guarantee": moments.guarantee.to_dict(),
        },
        (CATALOGUE, MOMENTS),
    )
    return trained


def _version(moments: ItemMoments | HistoryNetwork, kind: str) -> int:
    if moments.budget.shares > 1:
        return VERSION
    return 1 if kind == DEFAULT else 2


def _model_entry(moments: ItemMoments | HistoryNetwork, kind: str, version: int) -> dict[str, Any]:
    """What the first version of the format did not know."""
    if version == 1:
        return {}
    if not isinstance(moments, HistoryNetwork):
        return {"model": {"name": kind}}
    steps = moments.steps
    stated = {name: getattr(steps, name) for name in _STEPS}
    return {"model": {"name": kind, "steps": stated}}


def load_recommender(folder: Path) -> TrainedRecommender:
    """Open one; `VerificationFailed` if a file is not what the manifest says.

    The manifest is not signed: it finds damage, not an adversary. Moments and guarantee are
    compared with the books that paid before anything is said on their ground (`asking`).
    """
    head = _FOLDER.read_head(folder)
    with damaged(folder / RECOMMENDER):
        files, stated = dict(head["files"]), dict(head["budget"])
        budget = MomentsBudget(
            users=stated["users"],
            items=stated["items"],
            relation=Relation(stated["relation"]),
            mu=stated["mu"],
            parties=stated["parties"],
            shares=stated.get("shares", 1),
        )
        charges = tuple(map(str, head["charges"]))
        model: dict[str, Any] = {"name": DEFAULT} if head["version"] == 1 else dict(head["model"])
        promise = Guarantee.from_dict(head["guarantee"])
    parts = 1 if budget.popularity_only else 2
    kept = (MOMENTS,) if MOMENTS in files else _EARLIER[:parts]
    check_files(folder, files, frozenset({CATALOGUE, *kept}), RECOMMENDER)
    catalogue = _read_catalogue(folder / CATALOGUE)
    with damaged(folder / RECOMMENDER):
        if len(catalogue) != budget.items or len(charges) != parts:
            raise ValueError(f"expected {budget.items} items and {parts} charges")
        kind = chosen(MODELS, model["name"], "model")
        second = "network" if isinstance(kind, FromHistories) else "gram"
        paid = _paid_for([folder / name for name in kept], second)
        values = unpacked(paid[0], budget.popularity_noise.shape)
        popularity = ItemPopularity(values, event=budget.events[0], charge=charges[0])
        moments: ItemMoments | HistoryNetwork
        if isinstance(kind, FromHistories):
            stated = {name: model["steps"][name] for name in _STEPS}
            steps = PrivateSteps(**stated, rows=budget.users, relation=budget.relation)
            learned = _network(kind, steps, budget, paid[1], charges[1])
            moments = HistoryNetwork(catalogue, budget, kind, steps, popularity, learned, promise)
        else:
            gram = None if budget.popularity_only else _gram(budget, paid[1], charges[1])
            moments = ItemMoments(catalogue, budget, popularity, gram, promise)
        return TrainedRecommender(moments, model["name"])


def _network(
    kind: FromHistories, steps: PrivateSteps, budget: MomentsBudget, content: bytes, charge: str
) -> TrainedNetwork:
    shape = fresh_network(kind.network, budget.head).values.shape
    return TrainedNetwork(unpacked(content, shape), event=steps.event(), charge=charge)


def _gram(budget: MomentsBudget, content: bytes, charge: str) -> ItemGram:
    matrix = unpacked(content, (budget.head, budget.head))
    return ItemGram(matrix, event=budget.events[1], charge=charge)


def _paid_for(files: Sequence[Path], second: str) -> list[bytes]:
    """Popularity, then what follows it, as the ledger keeps them."""
    if files[0].name != MOMENTS:
        return [read_file(path) for path in files]
    arrays, _ = array_file.read(files[0], _MOMENTS_FILE)
    return [packed(arrays[name]) for name in ("popularity", second)[: len(arrays)]]


def _write_catalogue(catalogue: Catalogue, path: Path) -> None:
    content = {
        "name": catalogue.name,
        "items": catalogue.items,
        "titles": catalogue.titles,
        "kinds": dict(catalogue.kinds),
    }
    replace_file(path, (json.dumps(content, ensure_ascii=False) + "\n").encode())


def _read_catalogue(path: Path) -> Catalogue:
    content = read_json(path)
    with damaged(path):
        kinds = {
            str(kind): tuple(tuple(map(str, labels)) for labels in column)
            for kind, column in content["kinds"].items()
        }
        items, titles = (tuple(map(str, content[name])) for name in ("items", "titles"))
        return Catalogue(str(content["name"]), items, kinds, titles)

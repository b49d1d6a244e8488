"""A trained recommender as a folder: what may be shown, and nothing of a single user.

    recommender.json        format, version, budget, charges, guarantee, digest of every other file
    catalogue.json          items and their public features
    popularity.npy          with its noise, as the ledger keeps it
    gram.npy                likewise; absent where popularity got the whole budget

Models are made from the moments when it is opened. The manifest is written last; until then one
without anything but format and version says whose folder it is.

Compatibility promise: a recommender of version n is read by every later voile.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

from voile.app.artefact_manifest import check_files, file_digest, write_json
from voile.app.assessment_file import ASSESSMENT
from voile.core.atomic_file import check_output, check_output_folder, is_left_over, replace_file
from voile.core.errors import InvalidInput, UnreadableFile
from voile.core.guarantee import Guarantee, Relation
from voile.core.input_file import damaged, read_file, read_json
from voile.core.storage import Storage
from voile.recommenders import (
    Catalogue,
    ItemGram,
    ItemMoments,
    ItemPopularity,
    LinearRecommender,
    MomentsBudget,
    Recommender,
    recommender_from,
)
from voile.recommenders.moments import packed, unpacked
from voile.release import PostProcessed

FORMAT: Final = "voile recommender"
VERSION: Final = 1
MANIFEST: Final = "recommender.json"
CATALOGUE: Final = "catalogue.json"
POPULARITY: Final = "popularity.npy"
GRAM: Final = "gram.npy"
_OWN: Final = (MANIFEST, CATALOGUE, POPULARITY, GRAM, ASSESSMENT)
"""What may lie in such a folder, findings of `voile assess` among it."""


@dataclass(frozen=True, eq=False)
class TrainedRecommender:
    """Moments that were paid for, and the model made from them.

    Args:
        moments: frozen, like everything here.
        paid_in: the books in which it was looked up already who paid, and who that was.
        free: releases toward users themselves that were built already, by what is asked. They are
            frozen, and the same for every user.
    """

    moments: ItemMoments
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
        return recommender_from(self.moments)

    @property
    def linear(self) -> LinearRecommender:
        """The model, where it has reasons; refused where everybody gets the same."""
        if not isinstance(self.model, LinearRecommender):
            raise InvalidInput(
                "this recommender knows popularity alone: its budget was too small for more, so "
                "there is nothing to explain about a single user"
            )
        return self.model

    @property
    def charges(self) -> tuple[str, ...]:
        """The ledger's names for what paid for it."""
        made = (self.moments.popularity, self.moments.gram)
        return tuple(each.charge for each in made if each is not None and each.charge)

    @cached_property
    def arrays(self) -> dict[str, bytes]:
        """The moments by the name of their file, as the ledger keeps them."""
        moments, found = self.moments, {POPULARITY: packed(self.moments.popularity.values)}
        return found if moments.gram is None else found | {GRAM: packed(moments.gram.matrix)}

    @cached_property
    def digest(self) -> str:
        """Of the moments and the catalogue."""
        parts = [self.catalogue.digest.encode(), *self.arrays.values()]
        return hashlib.sha256(b"\n".join(parts)).hexdigest()


def check_place(folder: Path) -> None:
    """Refuse a place where nothing could be written, before anything is charged for it.

    A recommender takes the place of an earlier one, finished or not, and of nothing else.
    """
    check_output_folder(folder)
    inside = sorted(folder.iterdir()) if folder.exists() else []
    found = [path.name for path in inside if not is_left_over(path, _OWN)]
    others = [name for name in found if name not in _OWN]
    if found and (others or not _is_recommender(folder / MANIFEST)):
        shown = ", ".join((others or found)[:3])
        raise InvalidInput(
            f"{folder}: holds other things than a recommender ({shown}); choose a new folder, "
            "nothing was charged"
        )
    for name in _OWN if found else ():
        check_output(folder / name)


def _is_recommender(manifest: Path) -> bool:
    try:
        head = read_json(manifest)
    except UnreadableFile:
        return False
    return isinstance(head, dict) and head.get("format") == FORMAT


def check_not_inside(folder: Path, outputs: Iterable[Path]) -> None:
    """Refuse to write what one user is told into a recommender, which may be shown to everybody."""
    for path in outputs:
        if folder.resolve() in path.resolve().parents:
            raise InvalidInput(
                f"{path}: lies in the recommender {folder}, which may be shown to everybody and "
                "holds nothing of a single user; choose another place"
            )


def save_recommender(moments: ItemMoments, folder: Path) -> TrainedRecommender:
    """Write it; durable when this returns."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if is_left_over(path, _OWN):
            path.unlink()
    head = {"format": FORMAT, "version": VERSION}
    write_json(folder / MANIFEST, head)
    trained = TrainedRecommender(moments)
    _write_catalogue(moments.catalogue, folder / CATALOGUE)
    for name, content in trained.arrays.items():
        replace_file(folder / name, content)
    budget = moments.budget
    write_json(
        folder / MANIFEST,
        {
            **head,
            "budget": {
                "users": budget.users,
                "items": budget.items,
                "relation": str(budget.relation),
                "mu": budget.mu,
                "parties": budget.parties,
            },
            "charges": list(trained.charges),
            "guarantee": moments.guarantee.to_dict(),
            "files": {name: file_digest(folder / name) for name in _files(budget)},
        },
    )
    return trained


def load_recommender(folder: Path) -> TrainedRecommender:
    """Open one; `VerificationFailed` if a file is not what the manifest says.

    The manifest is not signed: it finds damage, not an adversary. Moments and guarantee are
    compared with the books that paid before anything is said on their ground (`asking`).
    """
    head = _manifest(folder)
    with damaged(folder / MANIFEST):
        files, stated = dict(head["files"]), dict(head["budget"])
    with damaged(folder / MANIFEST):
        budget = MomentsBudget(
            users=stated["users"],
            items=stated["items"],
            relation=Relation(stated["relation"]),
            mu=stated["mu"],
            parties=stated["parties"],
        )
        charges = tuple(map(str, head["charges"]))
        promise = Guarantee.from_dict(head["guarantee"])
    check_files(folder, files, frozenset(_files(budget)), MANIFEST)
    catalogue = _read_catalogue(folder / CATALOGUE)
    with damaged(folder / MANIFEST):
        if len(catalogue) != budget.items or len(charges) != len(files) - 1:
            raise ValueError(f"expected {budget.items} items and {len(files) - 1} charges")
        popularity, gram = _read_moments(folder, budget, charges)
        return TrainedRecommender(ItemMoments(catalogue, budget, popularity, gram, promise))


def _files(budget: MomentsBudget) -> list[str]:
    """What a recommender of this budget consists of, but the manifest."""
    return [CATALOGUE, POPULARITY, *([] if budget.popularity_only else [GRAM])]


def _read_moments(
    folder: Path, budget: MomentsBudget, charges: tuple[str, ...]
) -> tuple[ItemPopularity, ItemGram | None]:
    noise = budget.popularity_noise
    values = unpacked(read_file(folder / POPULARITY), noise.shape)
    popularity = ItemPopularity(values, event=noise.event(), charge=charges[0])
    if budget.popularity_only:
        return popularity, None
    matrix = unpacked(read_file(folder / GRAM), (budget.head, budget.head))
    return popularity, ItemGram(matrix, event=budget.gram_noise.event(), charge=charges[1])


def _manifest(folder: Path) -> Mapping[str, Any]:
    path = folder / MANIFEST
    if not path.is_file():
        raise UnreadableFile(f"{folder}: no recommender ({MANIFEST} is missing)")
    head = read_json(path)
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise UnreadableFile(f"{path}: not the manifest of a recommender")
    if head.get("version") != VERSION:
        raise UnreadableFile(
            f"{path}: a recommender of version {head.get('version')!r:.20}, this voile reads "
            f"{VERSION}; update voile"
        )
    if head.keys() == {"format", "version"}:
        raise UnreadableFile(
            f"{folder}: was broken off; the `voile recommend train` that wrote it finishes it, and "
            "pays for nothing twice"
        )
    return head


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

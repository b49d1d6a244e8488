"""`Client` and `AsyncClient`: explanations from a service (`voile serve`), as from a workspace.

Every question carries a key against repetition. So a connection that breaks costs nothing: the
question is sent again, and the service gives the answer that it has stored.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from voile.core.errors import (
    BudgetExceeded,
    InvalidInput,
    OutcomeUnknown,
    Refused,
    StorageFault,
    VerificationFailed,
    VoileError,
)
from voile.core.optional import optional

if TYPE_CHECKING:
    import httpx

    from voile.app.explain import ReleasedExplanation
    from voile.records.audit_log import Policy, Report

_TRIES: Final = 3
_PAUSE: Final = 0.2
_WAIT: Final = 30
_NOT_SIGNED: Final = 409
_EXPLANATIONS: Final = "/api/v1/explanations"


@dataclass(frozen=True)
class _Connection:
    """Where a service is, who asks, and whom to trust."""

    url: str
    key: str | None = field(default=None, repr=False)
    account: str | None = None
    policy: str | PathLike[str] | None = None
    timeout: float = 60.0
    transport: Any = field(default=None, repr=False)

    @property
    def options(self) -> dict[str, Any]:
        headers = {} if self.key is None else {"Authorization": f"Bearer {self.key}"}
        return {
            "base_url": self.url,
            "headers": headers,
            "timeout": self.timeout,
            "transport": self.transport,
        }

    def question(self, release: str, rows: Any, account: str | None, **more: Any) -> dict[str, Any]:
        """The body of a request; `more` are fields of it."""
        told = {"release": release, "rows": _plain_rows(rows), "account": account or self.account}
        return {**told, "saved": True, **more}

    def trusted(self) -> Policy:
        """Whose signatures count: that must not come from the service itself."""
        from voile.records.checkpoints import read_policy

        if self.policy is None:
            raise InvalidInput(
                "to verify an answer, say whom to trust: Client(..., policy='audit-policy.toml')"
            )
        return read_policy(Path(self.policy))


class Client:
    """Asks a service for explanations.

    Args:
        url: of the service.
        key: an API key or a token; None for what is open to anybody.
        account: who pays, unless a question names another.
        policy: a file with the keys that sign the service's log; needed to verify answers.
        timeout: seconds for one request.
        transport: another way to the service, as of httpx.

    A question is charged once, also where it has to be sent again. Close it, or use it in a `with`
    statement.

    >>> client = Client("https://explain.example", key="voile_...", account="customers")
    >>> client
    Client('https://explain.example')
    """

    def __init__(self, url: str, key: str | None = None, **more: Any) -> None:
        self._connection = _Connection(url, key, **more)
        self._http: httpx.Client = optional("httpx", extra="serve").Client(
            **self._connection.options
        )

    def explain(
        self,
        release: str,
        rows: Any,
        *,
        account: str | None = None,
        purpose: str = "explanation",
        redraw: bool = False,
        coarser: bool = False,
        repeat: str | None = None,
    ) -> ReleasedExplanation:
        """Explain rows with a release of the service's.

        Args:
            rows: a table, a list of rows, or a dict of columns.
            redraw: pay again for new noise, even if this was answered before.
            coarser: accept a coarser level, if a rule of the service offers one; else such an offer
                is raised as `Refused`.
            repeat: key against repetition, to ask again after this program has ended.
        """
        body = self._connection.question(
            release, rows, account, purpose=purpose, redraw=redraw, coarser=coarser
        )
        headers = {"Idempotency-Key": repeat or _new_key()}
        return _explained(self._ask("POST", _EXPLANATIONS, json=body, headers=headers))

    def preview(self, release: str, rows: Any = 1, *, account: str | None = None) -> dict[str, Any]:
        """What an answer for these rows, or this many, would cost and be like."""
        given = rows if isinstance(rows, int) else _plain_rows(rows)
        body = {"release": release, "rows": given, "account": account or self._connection.account}
        return _object(self._ask("POST", "/api/v1/previews", json=body))

    def releases(self) -> list[dict[str, Any]]:
        """What can be asked, with the price of one row."""
        found: list[dict[str, Any]] = _object(self._ask("GET", "/api/v1/releases"))["releases"]
        return found

    def verify(self, explained: ReleasedExplanation, *, wait: float = 90.0) -> tuple[Report, ...]:
        """Get the receipt of each entry and verify it; `VerificationFailed` if one does not hold.

        Args:
            wait: seconds for the service to sign its log.
        """
        policy = self._connection.trusted()
        contents = self._receipts(explained, wait)
        return _all_verified(contents, policy, explained)

    def receipts(self, explained: ReleasedExplanation, *, wait: float = 90.0) -> tuple[bytes, ...]:
        """The receipts of its entries, verified; kept beside it, anybody can check it again.

        Args:
            wait: seconds for the service to sign its log.
        """
        policy = self._connection.trusted()
        contents = self._receipts(explained, wait)
        _all_verified(contents, policy, explained)
        return contents

    def recommend(
        self, recommender: str, history: Iterable[Any], *, group_by: str = "items", count: int = 10
    ) -> ReleasedExplanation:
        """Recommend to a user from her own history, with reasons: free, and for her alone.

        Args:
            recommender: its name in the service's workspace.
            history: items that she has touched, by their identifiers.
            group_by: reasons: items (of the history), scores (none), or a kind of labels.
            count: how many recommendations.
        """
        body = _recommendation(recommender, history, group_by, count)
        return _explained(self._ask("POST", "/api/v1/recommendations", json=body))

    def _receipts(self, explained: ReleasedExplanation, wait: float) -> tuple[bytes, ...]:
        until = time.monotonic() + wait
        return tuple([self._receipt(entry.record, until) for entry in explained.entries])

    def _receipt(self, record: int, until: float) -> bytes:
        path = f"/api/v1/receipts/{record}"
        while True:
            found = self._send("GET", path, headers=_patience(until))
            if found.status_code != _NOT_SIGNED or time.monotonic() >= until:
                return _checked(found).content

    def _ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        return _checked(self._send(method, path, **more))

    def _send(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send again what broke: whatever is charged carries a key against repetition."""
        errors = optional("httpx", extra="serve").TransportError
        for trial in range(_TRIES):
            try:
                found = self._http.request(method, path, **more)
            except errors as error:
                broken = error
            else:
                if not _is_running(found):
                    return found
                broken = None
            time.sleep(_PAUSE * 2**trial)
        raise _unknown(broken)

    def close(self) -> None:
        """End all connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._connection.url!r})"


class AsyncClient:
    """The same as `Client`, for programs that wait for many things at once.

    >>> AsyncClient("https://explain.example")
    AsyncClient('https://explain.example')
    """

    def __init__(self, url: str, key: str | None = None, **more: Any) -> None:
        self._connection = _Connection(url, key, **more)
        self._http: httpx.AsyncClient = optional("httpx", extra="serve").AsyncClient(
            **self._connection.options
        )

    async def explain(
        self,
        release: str,
        rows: Any,
        *,
        account: str | None = None,
        purpose: str = "explanation",
        redraw: bool = False,
        coarser: bool = False,
        repeat: str | None = None,
    ) -> ReleasedExplanation:
        """See `Client.explain`."""
        body = self._connection.question(
            release, rows, account, purpose=purpose, redraw=redraw, coarser=coarser
        )
        headers = {"Idempotency-Key": repeat or _new_key()}
        return _explained(await self._ask("POST", _EXPLANATIONS, json=body, headers=headers))

    async def preview(
        self, release: str, rows: Any = 1, *, account: str | None = None
    ) -> dict[str, Any]:
        """See `Client.preview`."""
        given = rows if isinstance(rows, int) else _plain_rows(rows)
        body = {"release": release, "rows": given, "account": account or self._connection.account}
        return _object(await self._ask("POST", "/api/v1/previews", json=body))

    async def releases(self) -> list[dict[str, Any]]:
        """See `Client.releases`."""
        told = _object(await self._ask("GET", "/api/v1/releases"))
        found: list[dict[str, Any]] = told["releases"]
        return found

    async def verify(
        self, explained: ReleasedExplanation, *, wait: float = 90.0
    ) -> tuple[Report, ...]:
        """See `Client.verify`."""
        policy = self._connection.trusted()
        contents = await self._receipts(explained, wait)
        return _all_verified(contents, policy, explained)

    async def receipts(
        self, explained: ReleasedExplanation, *, wait: float = 90.0
    ) -> tuple[bytes, ...]:
        """See `Client.receipts`."""
        policy = self._connection.trusted()
        contents = await self._receipts(explained, wait)
        _all_verified(contents, policy, explained)
        return contents

    async def recommend(
        self, recommender: str, history: Iterable[Any], *, group_by: str = "items", count: int = 10
    ) -> ReleasedExplanation:
        """See `Client.recommend`."""
        body = _recommendation(recommender, history, group_by, count)
        return _explained(await self._ask("POST", "/api/v1/recommendations", json=body))

    async def _receipts(self, explained: ReleasedExplanation, wait: float) -> tuple[bytes, ...]:
        until = time.monotonic() + wait
        return tuple([await self._receipt(entry.record, until) for entry in explained.entries])

    async def _receipt(self, record: int, until: float) -> bytes:
        path = f"/api/v1/receipts/{record}"
        while True:
            found = await self._send("GET", path, headers=_patience(until))
            if found.status_code != _NOT_SIGNED or time.monotonic() >= until:
                return _checked(found).content

    async def _ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        return _checked(await self._send(method, path, **more))

    async def _send(self, method: str, path: str, **more: Any) -> httpx.Response:
        errors = optional("httpx", extra="serve").TransportError
        for trial in range(_TRIES):
            try:
                found = await self._http.request(method, path, **more)
            except errors as error:
                broken = error
            else:
                if not _is_running(found):
                    return found
                broken = None
            await asyncio.sleep(_PAUSE * 2**trial)
        raise _unknown(broken)

    async def aclose(self) -> None:
        """End all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"AsyncClient({self._connection.url!r})"


# --- what both share: from rows to a request, from a response to what it says ---------------------


def _patience(until: float) -> dict[str, str]:
    """For how long the service may wait with its answer; not longer than whoever asks."""
    left = min(_WAIT, int(until - time.monotonic()))
    return {"Prefer": f"wait={left}"} if left > 0 else {}


def _new_key() -> str:
    return secrets.token_urlsafe(24)


def _plain_rows(given: Any) -> Any:
    """A table as columns of plain cells, an array or a list as rows in the schema's order."""
    from voile.datasets.frames import columns_of, is_frame

    if is_frame(given):
        return {name: _plain_cells(column.tolist()) for name, column in columns_of(given).items()}
    listed = given.tolist() if hasattr(given, "tolist") else list(given)
    rows = listed if listed and isinstance(listed[0], list | tuple) else [listed]
    return [_plain_cells(row) for row in rows]


def _plain_cells(cells: Iterable[Any]) -> list[Any]:
    """For JSON, which knows no NaN: missing is null there."""
    return [None if each is None or each != each else _plain_cell(each) for each in cells]


def _plain_cell(given: Any) -> Any:
    known = isinstance(given, bool | int | float | str)
    return given if known else getattr(given, "isoformat", given.__str__)()


def _explained(response: httpx.Response) -> ReleasedExplanation:
    """The same object that a workspace returns, bit for bit."""
    from voile.app.explain import LoggedAnswer, ReleasedExplanation
    from voile.app.explain.released import joined
    from voile.core.explanation import Explanation

    told = _object(response)
    entries = tuple(
        LoggedAnswer(
            Explanation.from_bytes(base64.b64decode(entry["explanation"])),
            b"",
            entry["record"],
            entry["charge"],
            entry["replayed"],
            {},
        )
        for entry in told["entries"]
    )
    whole = joined([each.explanation for each in entries])
    return ReleasedExplanation(whole, entries, model_alarms=tuple(told["alarms"]))


def _recommendation(
    recommender: str, history: Iterable[Any], group_by: str, count: int
) -> dict[str, Any]:
    return {
        "recommender": recommender,
        "history": [_plain_cell(each) for each in history],
        "group_by": group_by,
        "count": count,
        "saved": True,
    }


def _all_verified(
    contents: Iterable[bytes], policy: Policy, explained: ReleasedExplanation
) -> tuple[Report, ...]:
    pairs = zip(contents, explained.entries, strict=True)
    return tuple(_verified(content, policy, entry.answer) for content, entry in pairs)


def _verified(content: bytes, policy: Policy, answer: bytes) -> Report:
    from voile.records.audit_log import verify_receipt

    report = verify_receipt(content, policy, answer=answer)
    if not report.verified:
        failed = next(str(step.detail) for step in report.steps if step.outcome == "failed")
        raise VerificationFailed(f"the receipt does not hold: {failed}")
    return report


def _object(response: httpx.Response) -> dict[str, Any]:
    found: dict[str, Any] = response.json()
    return found


def _is_running(response: httpx.Response) -> bool:
    """Whether an earlier sending of the same request is being answered."""
    return response.status_code == 409 and "still-running" in response.text


def _checked(response: httpx.Response) -> httpx.Response:
    if response.is_success:
        return response
    try:
        problem = _object(response)
    except ValueError:
        problem = {}
    raise _error(response.status_code, problem)


def _error(status: int, problem: Mapping[str, Any]) -> VoileError:
    title = str(problem.get("title", "no explanation was given"))
    detail = f": {problem['detail']}" if "detail" in problem else ""
    said = "; ".join(
        " ".join(f"{name} {value}" for name, value in each.items())
        for each in problem.get("errors", ())
    )
    level = (problem.get("offer") or {}).get("level")
    title = f"{title} ({level})" if level else title
    message = f"the service answered {status}, {title}{detail}{f': {said}' if said else ''}"
    if {"remaining", "requested"} <= problem.keys():
        left, needed = float(problem["remaining"]), float(problem["requested"])
        return BudgetExceeded(message, remaining=left, requested=needed)
    if status in (401, 402, 403) or "offer" in problem:
        return Refused(message)
    if status in (409, 429) or status >= 500:
        return StorageFault(message)
    return InvalidInput(message)


def _unknown(broken: Exception | None) -> OutcomeUnknown:
    why = "is still being answered" if broken is None else f"broke off ({type(broken).__name__})"
    return OutcomeUnknown(
        f"the request {why}: it may have been charged. Ask again with the same `repeat` key, and "
        "you get what was stored at no further cost"
    )

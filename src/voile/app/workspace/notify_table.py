"""`[[notify]]` of `voile.toml`: who is told of alerts, and how."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from voile.app.compliance.delivery import Channel, LogLines, Mail, Webhook

Text = Annotated[str, Field(min_length=1, max_length=500)]
_OF_KIND: Final = {
    "webhook": ({"url", "key"}, set[str]()),
    "mail": ({"server", "sender", "to"}, {"tls", "user", "password"}),
    "log": (set[str](), {"file"}),
}
"""Which keys a kind needs, and which it knows besides."""
_FOR_ALL: Final = {"kind", "name", "custodian"}
_SMTP: Final = 587
Address = Annotated[str, Field(pattern=r"^[^\s@]+@[^\s@]+$")]


class NotifyTable(BaseModel):
    """One way to tell people.

    Args:
        kind: `webhook`, `mail`, or `log` for lines of JSON.
        name: by which it remembers what was sent; the kind, if there is only one of it.
        custodian: the custodian alone reads it; it also gets what depends on protected data.
        url: https, or http on this machine.
        key: file with the secret that a webhook is signed with.
        server: host, or host:port, of a mail server.
        sender, to: addresses.
        tls: `starttls`, `tls`, or `none`.
        user: at the mail server.
        password: name of the environment variable that holds it.
        file: of the lines; standard error, if it is left out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["webhook", "mail", "log"]
    name: Text | None = None
    custodian: bool = False
    url: str | None = Field(None, pattern=r"^(https://|http://(localhost|127\.0\.0\.1)[:/])")
    key: Text | None = None
    server: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+(:[0-9]{1,5})?$")] | None = None
    sender: Address | None = None
    to: tuple[Address, ...] = ()
    tls: Literal["starttls", "tls", "none"] | None = None
    user: Text | None = None
    password: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    file: Text | None = None

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        needed, known = _OF_KIND[self.kind]
        stated = self.model_fields_set
        missing, beside = needed - stated, stated - needed - known - _FOR_ALL
        if missing:
            raise ValueError(f"{self.kind} needs {', '.join(sorted(missing))}")
        if beside:
            raise ValueError(f"{', '.join(sorted(beside))} does not belong to {self.kind}")
        return self

    @property
    def called(self) -> str:
        """By which it remembers what was sent."""
        return self.name or self.kind

    def channel(self, folder: Path) -> Channel:
        """What sends; files are relative to the workspace."""
        name, custodian = self.called, self.custodian
        if self.kind == "log":
            file = None if self.file is None else folder / self.file
            return LogLines(name, file, custodian)
        if self.kind == "webhook":
            assert self.url is not None
            assert self.key is not None
            return Webhook.from_file(name, self.url, folder / self.key, custodian=custodian)
        assert self.server is not None
        assert self.sender is not None
        host, _, port = self.server.partition(":")
        return Mail(
            name,
            (host, int(port or _SMTP)),
            self.sender,
            self.to,
            self.tls or "starttls",
            self.user,
            self.password,
            custodian,
        )

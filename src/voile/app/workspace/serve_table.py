"""`[serve]` of `voile.toml`: where and how the HTTP service answers."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from voile.core.transparency import Level, Role
from voile.records.access import Duty

Text = Annotated[str, Field(min_length=1)]
IssuerName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
"""No colon: callers are named ISSUER:SUBJECT, and two issuers must not name the same one."""
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(strict=True, ge=1)]
_SMALLEST_DELAY: Final = 0.05


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class IssuerTable(_Table):
    """Tokens of an OpenID Connect issuer that are accepted, and what they may do.

    Args:
        issuer, audience: what a token must name.
        keys: address of the issuer's key set (JWKS), https.
        algorithms: how tokens may be signed; asymmetric ones only.
        duties: at most these; a token states its own as `voile:DUTY` in its scope.
        accounts, roles, level, rate: as of a key.
    """

    issuer: Text
    audience: Text
    keys: Annotated[str, Field(pattern=r"^(https://|http://(localhost|127\.0\.0\.1)[:/])")]
    algorithms: tuple[Literal["RS256", "PS256", "ES256", "EdDSA"], ...] = ("RS256", "ES256")
    duties: Annotated[tuple[Duty, ...], Field(min_length=1)]
    accounts: tuple[Text, ...] = ()
    roles: tuple[Role, ...] = (Role.ANALYST,)
    level: Level = Level.DETAILED
    rate: Annotated[int, Field(strict=True, ge=0)] = 600


class WitnessTable(_Table):
    """Cosign the logs of others at `/witness/add-checkpoint`.

    Args:
        database: of the witness.
        key: its signing key; `voile audit witness` makes one.
        policies: of the logs that it knows.
    """

    database: Text
    key: Text
    policies: Annotated[tuple[Text, ...], Field(min_length=1)]


class ServeTable(_Table):
    """All of it.

    Args:
        host, port: where to listen.
        certificate, private_key: for TLS without a proxy.
        largest_body: of a request, in bytes.
        most_rows: of a request.
        gather: seconds for which more requests are waited for, while several are answered together.
            Whoever asks alone does not wait.
        together: how many requests are answered together at most.
        delay: seconds after its arrival at which a charged answer leaves. True for a figure from
            public facts; false to let answers leave when they are ready, which shows running time.
        repeat_hours: for how long a request with an Idempotency-Key is recognised.
        checkpoint_seconds, checkpoint_records: how often the log is signed.
        drain: seconds for which requests may go on when the service is told to stop.
        issuers: whose tokens are accepted, by a name of your own.
        witness: for the logs of others.
    """

    host: Text = "127.0.0.1"
    port: Annotated[int, Field(strict=True, ge=0, le=65535)] = 8460
    certificate: Text | None = None
    private_key: Text | None = None
    largest_body: Count = 1_000_000
    most_rows: Count = 1000
    gather: Seconds = 0.003
    together: Count = 32
    delay: bool | Annotated[float, Field(ge=_SMALLEST_DELAY, allow_inf_nan=False)] = True
    repeat_hours: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 24.0
    checkpoint_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 60.0
    checkpoint_records: Count = 100
    drain: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 30.0
    issuers: dict[IssuerName, IssuerTable] = {}
    witness: WitnessTable | None = None

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if (self.certificate is None) != (self.private_key is None):
            raise ValueError("certificate and private_key belong together")
        return self

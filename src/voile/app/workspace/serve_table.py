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
HTTPS: Final = r"^(https://|http://(localhost|127\.0\.0\.1)([:/]|$))"
"""Addresses where secrets may travel: https, or this machine."""
Address = Annotated[str, Field(pattern=HTTPS)]
_SMALLEST_DELAY: Final = 0.05


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class IssuerTable(_Table):
    """Tokens of an OpenID Connect issuer that are accepted, and what they may do.

    Args:
        issuer, audience: what a token must name.
        keys: address of the issuer's key set (JWKS), https.
        algorithms: how tokens may be signed; asymmetric ones only.
        duties: at most these; a token states its own as `voile:DUTY` in its claim.
        claim: the claim that states them: a text of words, or a list of them.
        accounts, roles, level, rate: as of a key.
        client_id: of this service at the issuer; people may then sign in to the dashboard there.
        client_secret_env: the environment variable that holds the client's secret, if it has one.
        address: of this service, as people open it and the issuer knows it.
        scopes: what is asked for beside `openid`.
        authorize, token: addresses of the issuer; without them, its discovery document says them.
    """

    issuer: Text
    audience: Text
    keys: Address
    algorithms: tuple[Literal["RS256", "PS256", "ES256", "EdDSA"], ...] = ("RS256", "ES256")
    duties: Annotated[tuple[Duty, ...], Field(min_length=1)]
    accounts: tuple[Text, ...] = ()
    roles: tuple[Role, ...] = (Role.ANALYST,)
    level: Level = Level.DETAILED
    rate: Annotated[int, Field(strict=True, ge=0)] = 600
    claim: Text = "scope"
    client_id: Text | None = None
    client_secret_env: Text | None = None
    address: Address | None = None
    scopes: tuple[Text, ...] = ()
    authorize: Address | None = None
    token: Address | None = None

    @model_validator(mode="after")
    def _can_sign_in(self) -> Self:
        if (self.client_id is None) != (self.address is None):
            raise ValueError("client_id and address belong together")
        if (self.authorize is None) != (self.token is None):
            raise ValueError("authorize and token belong together")
        if self.client_secret_env is not None and self.client_id is None:
            raise ValueError("client_secret_env needs client_id")
        return self


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

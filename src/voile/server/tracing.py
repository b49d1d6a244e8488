"""Traces of requests (W3C trace context), where `opentelemetry-api` is installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from starlette.types import Scope

from voile.core.errors import MissingDependency
from voile.core.optional import optional

_CARRIED: Final = frozenset({b"traceparent", b"tracestate"})


@dataclass(frozen=True)
class RequestSpan:
    """One request, as part of the trace that its caller has begun.

    Args:
        span: None where nothing traces.
    """

    span: Any = None

    @property
    def trace(self) -> str | None:
        """The identifier of the trace; None outside of one."""
        context = None if self.span is None else self.span.get_span_context()
        return f"{context.trace_id:032x}" if context is not None and context.is_valid else None

    def finish(self, name: str, status: int) -> None:
        """Say what it was: a route and a status, and nothing that was sent."""
        if self.span is not None:
            self.span.update_name(name)
            self.span.set_attribute("http.response.status_code", status)


class Tracing:
    """Makes a span for each request; nothing where the package is missing."""

    def __init__(self) -> None:
        try:
            self._trace = optional("opentelemetry.trace", extra="serve")
            self._propagate = optional("opentelemetry.propagate", extra="serve")
        except MissingDependency:
            self._tracer = None
        else:
            self._tracer = self._trace.get_tracer("voile.server")

    @contextmanager
    def span(self, scope: Scope) -> Iterator[RequestSpan]:
        """Around a request. What is raised in it is not part of a trace: it may name a value."""
        if self._tracer is None:
            yield RequestSpan()
            return
        carried = {
            name.decode(): value.decode("latin-1")
            for name, value in scope["headers"]
            if name in _CARRIED
        }
        with self._tracer.start_as_current_span(
            "request",
            context=self._propagate.extract(carried),
            kind=self._trace.SpanKind.SERVER,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            yield RequestSpan(span)

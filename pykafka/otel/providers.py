"""`Providers`: the tracer and the instruments of one client, as long as an SDK stands behind OpenTelemetry's API."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from opentelemetry import metrics, trace

from pykafka._version import __version__
from pykafka.otel import names

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Tracer, TracerProvider

#: The API without an SDK makes no spans and metrics. How often the client looks whether there is an SDK by now (s).
LOOK_S = 0.02
#: The names of these spans and metrics' scope.
SCOPE = "pykafka.otel"


class Instruments:
    """The instruments of one meter.

    :param provider: makes the meter
    """

    def __init__(self, provider: MeterProvider) -> None:
        meter = metrics.get_meter(SCOPE, __version__, provider)
        advice = {"explicit_bucket_boundaries_advisory": names.BOUNDS}
        self.durations = meter.create_histogram(
            names.OPERATION_DURATION, "s", "Duration of send, receive and settle operations of the client.", **advice
        )
        self.process_durations = meter.create_histogram(
            names.PROCESS_DURATION, "s", "Duration of processing a record.", **advice
        )
        self.sent = meter.create_counter(names.SENT, "{message}", "Messages that were to be sent to a broker.")
        self.consumed = meter.create_counter(names.CONSUMED, "{message}", "Messages that the application has got.")


class Providers:
    """The tracer and the instruments of one client.

    State: any worker may look; each field is stored in one step, `is_silent` and `look_at` at last.

    :param tracer_provider: None for the global one
    :param meter_provider: None for the global one
    """

    def __init__(self, tracer_provider: TracerProvider | None, meter_provider: MeterProvider | None) -> None:
        self._given = tracer_provider, meter_provider
        #: Makes spans; the API's own, which passes contexts on, without an SDK.
        self.tracer: Tracer = trace.NoOpTracer()
        #: Whether it is an SDK's.
        self.traces = False
        #: None: no SDK measures anything.
        self.instruments: Instruments | None = None
        #: Whether neither spans nor metrics go anywhere.
        self.is_silent = True
        #: When `look()` is to be called next, of the handler's clock (s).
        self.look_at = -inf

    def look(self, now: float) -> None:
        """Look for an SDK.

        :param now: by the handler's clock (s)
        """
        given, meters = self._given
        is_final = True
        if not self.traces:
            provider = trace.get_tracer_provider() if given is None else given
            if _is_of_api(provider):
                is_final = given is not None
            else:
                tracer = trace.get_tracer(SCOPE, __version__, provider)
                self.tracer, self.traces = tracer, not _is_of_api(tracer)  # `OTEL_SDK_DISABLED`
        if self.instruments is None:
            provider = metrics.get_meter_provider() if meters is None else meters
            if _is_of_api(provider):
                is_final = is_final and meters is not None
            else:
                self.instruments = Instruments(provider)
        self.is_silent = not self.traces and self.instruments is None
        self.look_at = inf if is_final else now + LOOK_S


def _is_of_api(made: object) -> bool:
    """Return whether a provider, or what it has made, is one of the API's own, which do nothing."""
    return type(made).__module__.startswith(("opentelemetry.trace", "opentelemetry.metrics"))

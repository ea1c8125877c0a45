"""What Prometheus reads at `/metrics`."""

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)


class Metrics:
    """Counts of one server, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        own: Any = {"namespace": "lexergy", "registry": self.registry}
        self.requests = Counter("requests", "Requests answered.", ["path", "status"], **own)
        self.seconds = Histogram("request_seconds", "Time to the end of the answer.", ["path"], buckets=_SECONDS, **own)
        self.texts = Gauge("texts", "Texts waiting or being written; a request has n of each prompt.", **own)
        self.waiting = Gauge("steps_waiting", "Chunks and calls that wait for their turn.", **own)
        self.refused = Counter("refused", "Requests refused because the queue was full.", **own)
        self.cancelled = Counter("cancelled", "Requests whose client went away or that took too long.", **own)
        self.sampled_tokens = Counter("sampled_tokens", "Tokens drawn, of all candidates.", **own)
        self.batch_texts = Histogram("batch_texts", "Texts that shared a batch.", buckets=(1, 2, 4, 8, 16, 64), **own)
        self.batch_seconds = Histogram("batch_seconds", "Time of a batch.", buckets=_SECONDS, **own)

    def page(self) -> bytes:
        return generate_latest(self.registry)

"""A bounded queue of jobs, and the one thread that runs the models.

Requests are taken in by the thread of the event loop and carried out here, a chunk at a time and in turn: no text waits
for another to be finished, and one whose client has gone is dropped before its next chunk.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from lexergy.errors import LexergyError
from lexergy.serve.api.catalogue import Catalogue
from lexergy.serve.api.errors import ApiError, invalid
from lexergy.serve.api.metrics import Metrics
from lexergy.serve.api.writing import Piece, Text, write_chunks

log = logging.getLogger("lexergy.serve")

LONGEST_WAIT = 60  # seconds that a client is told to wait before it asks again


class Written(NamedTuple):
    """A chunk of one text; of the best kept, `choice` counts on from the text's own."""

    choice: int
    piece: Piece


class Answered(NamedTuple):
    """What a job that is no text gave."""

    value: Any


class Failed(NamedTuple):
    error: ApiError


class Done(NamedTuple):
    """All texts of the job are written."""


Event = Written | Answered | Failed | Done


class Job:
    """One request: what is left to do of it, and where its events go."""

    def __init__(self, work: "Sequence[Text] | Callable[[], Any]") -> None:
        self.texts = [] if callable(work) else list(work)
        self.call = work if callable(work) else None
        self.cost = max(1, len(self.texts))
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self.loop = asyncio.get_running_loop()
        self.submitted = time.monotonic()
        self.begun = False
        self.cancelled = False
        self.running = 0  # steps in the worker's hands
        self.released = False

    def tell(self, event: Event) -> None:
        """From the worker's thread."""
        try:
            self.loop.call_soon_threadsafe(self.events.put_nowait, event)
        except RuntimeError:  # the event loop has closed: nobody listens any more
            self.cancelled = True


class Step(NamedTuple):
    """The next thing to be done for a job: a chunk of one of its texts, or its call."""

    job: Job
    text: Text | None


class Desk:
    """Takes jobs in as long as there is room, and carries them out."""

    def __init__(self, load: Callable[[], Catalogue], capacity: int, metrics: Metrics) -> None:
        self.capacity = capacity
        self.metrics = metrics
        self.catalogue: Catalogue | None = None
        self.failure: Exception | None = None
        self.used = 0  # texts waiting or being written
        self._load = load
        self._steps: deque[Step] = deque()
        self._jobs: set[Job] = set()
        self._change = threading.Condition()
        self._closed = self._stopped = False
        self._seconds_per_text = 1.0
        self._thread = threading.Thread(target=self._work, name="lexergy-sampling", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ready(self) -> Catalogue:
        """The models, or a 503 while they are being loaded or the server is closing."""
        if self._closed:
            raise ApiError(503, "the server is shutting down; ask again later.", retry_after=10)
        if self.catalogue is None:
            message = "the models are being loaded; ask again in a moment."
            if self.failure is not None:
                message = "the models could not be loaded; the server's log says why."
            raise ApiError(503, message, retry_after=5)
        return self.catalogue

    def submit(self, work: Sequence[Text] | Callable[[], Any]) -> Job:
        """Queue a job, or refuse it with 429 where there is no room for all of its texts."""
        job = Job(work)
        if job.cost > self.capacity:
            raise invalid(
                f"{job.cost} texts are asked for at once; expected at most {self.capacity}, all that the queue holds; "
                "lower `n`, or send fewer prompts in a request.",
                "n",
            )
        with self._change:
            if self.used + job.cost > self.capacity:
                self.metrics.refused.inc()
                raise ApiError(
                    429,
                    f"the queue is full: {self.used} of {self.capacity} texts wait or are written; ask again later.",
                    code="queue_full",
                    retry_after=self._wait(),
                )
            self.used += job.cost
            self._jobs.add(job)
            self._steps.extend([Step(job, text) for text in job.texts] or [Step(job, None)])
            self._count()
            self._change.notify()
        return job

    def cancel(self, job: Job) -> None:
        """Drop what is left of a job; its place is free at once, or after the chunk that is being written."""
        with self._change:
            if job.released:
                return
            job.cancelled = True
            self.metrics.cancelled.inc()
            self._drop(job)

    def close(self) -> None:
        """Take nothing in any more; what is queued goes on."""
        self._closed = True

    def hand_back(self) -> None:
        """Give up what is not finished: each client hears that it may ask again."""
        error = ApiError(503, "the server shut down before this was finished; ask again.", retry_after=10)
        with self._change:
            for job in list(self._jobs):
                job.tell(Failed(error))
                job.cancelled = True
                self._drop(job)

    def stop(self, timeout: float) -> None:
        """End the thread after the chunk that it is at."""
        with self._change:
            self._stopped = True
            self._change.notify()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _wait(self) -> int:
        return max(1, min(LONGEST_WAIT, round(self._seconds_per_text * self.used)))

    def _drop(self, job: Job) -> None:
        self._steps = deque(step for step in self._steps if step.job is not job)
        if not job.running:
            self._release(job)

    def _release(self, job: Job) -> None:
        if not job.released:
            job.released = True
            self.used -= job.cost
            self._jobs.discard(job)
            self._count()

    def _count(self) -> None:
        self.metrics.texts.set(self.used)
        self.metrics.waiting.set(len(self._steps))

    def _work(self) -> None:
        try:
            self.catalogue = self._load()
        except Exception as error:
            self.failure = error
            log.error("error: %s", error, exc_info=not isinstance(error, LexergyError))
            return
        while batch := self._next_batch():
            with self._carried_out(batch):
                if batch[0].text is None:
                    self._answer(batch[0].job)
                else:
                    self._write(batch)

    def _next_batch(self) -> list[Step]:
        """The oldest step, and those behind it that can share its batch; nothing once the desk has stopped."""
        with self._change:
            while not self._steps and not self._stopped:
                self._change.wait()
            if self._stopped:
                return []
            batch = [self._steps.popleft()]
            first = batch[0].text
            if first is not None:
                rows, left = first.rows, []
                for step in self._steps:
                    text = step.text
                    if text is not None and text.key == first.key and first.fits(rows + text.rows):
                        batch.append(step)
                        rows += text.rows
                    else:
                        left.append(step)
                self._steps = deque(left)
            for step in batch:
                step.job.begun = True
                step.job.running += 1
            self._count()
            return batch

    @contextmanager
    def _carried_out(self, batch: Sequence[Step]) -> Iterator[None]:
        """Queue the next chunks of what is not finished, and let the rest go."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.metrics.batch_texts.observe(len(batch))
            self.metrics.batch_seconds.observe(time.monotonic() - started)
            with self._change:
                for job, text in batch:
                    job.running -= 1
                    if text is not None and text.finish is None and not job.cancelled:
                        self._steps.append(Step(job, text))
                    elif job.cancelled or not self._has_work(job):
                        self._finish(job)
                self._count()

    def _has_work(self, job: Job) -> bool:
        return any(text.finish is None for text in job.texts) or job.running > 0

    def _finish(self, job: Job) -> None:
        if job.released or job.running:
            return
        if not job.cancelled:
            job.tell(Done())
            seconds = (time.monotonic() - job.submitted) / max(1, self.used)
            self._seconds_per_text += 0.2 * (seconds - self._seconds_per_text)
        self._release(job)

    def _answer(self, job: Job) -> None:
        assert job.call is not None
        try:
            job.tell(Answered(job.call()))
        except Exception as error:
            self._fail(job, error)

    def _write(self, batch: Sequence[Step]) -> None:
        texts = [step.text for step in batch if step.text is not None]
        assert self.catalogue is not None
        try:
            written = write_chunks(self.catalogue.models[texts[0].manner.model], texts)
        except Exception as error:
            if len(batch) == 1:
                self._fail(batch[0].job, error)
            else:  # one text's mistake is not the others'
                for step in batch:
                    self._write([step])
            return
        for step, text, pieces in zip(batch, texts, written, strict=True):
            for place, piece in enumerate(pieces):
                self.metrics.sampled_tokens.inc(piece.sampled_tokens)
                step.job.tell(Written(text.number + place, piece))

    def _fail(self, job: Job, error: Exception) -> None:
        if isinstance(error, ApiError):
            told = error
        elif isinstance(error, LexergyError):
            told = invalid(str(error))
        else:
            log.error("a request failed", exc_info=error)
            told = ApiError(500, "the server made a mistake; its log says more.")
        job.tell(Failed(told))
        with self._change:
            job.cancelled = True
            self._steps = deque(step for step in self._steps if step.job is not job)

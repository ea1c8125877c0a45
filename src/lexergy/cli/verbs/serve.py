"""`lexergy serve`: a run behind an address that speaks OpenAI's API."""

from pathlib import Path
from typing import Annotated

import typer

from lexergy.cli.options import RunFolder, as_written, at_least, known_place, positive
from lexergy.errors import LexergyError

DetectorFolder = Annotated[
    Path | None,
    typer.Option(
        "--detector",
        metavar="PATH",
        help="Folder of `lexergy detect train`, for /v1/detect.",
        show_default="none",
        parser=as_written,
        callback=known_place,
    ),
]
ScorerModel = Annotated[
    str | None,
    typer.Option("--scorer", help="A further model for /v1/score, such as Electric.", show_default="the base LM"),
]
Host = Annotated[str, typer.Option("--host", help="Address to listen on; the default is this machine alone.")]
Port = Annotated[
    int, typer.Option("--port", help="Port; 0 takes a free one.", callback=at_least(0, "8000 is a good choice"))
]
Keys = Annotated[
    str | None,
    typer.Option(
        "--api-key",
        envvar="LEXERGY_API_KEY",
        show_default="none",
        help="Ask for this key; several are parted by commas. Better set as a variable: others may list processes.",
    ),
]
Origins = Annotated[
    list[str] | None,
    typer.Option("--allow-origin", help="Let pages of this origin ask too; may be given several times."),
]
Queue = Annotated[
    int,
    typer.Option("--queue", help="Texts waiting or being written; above it, 429.", callback=at_least(1, "64 will do")),
]
MaxTokens = Annotated[
    int, typer.Option("--max-tokens", help="The most tokens of a text.", callback=at_least(1, "1024 will do"))
]
MaxCandidates = Annotated[
    int, typer.Option("--max-candidates", help="The most candidates of a text.", callback=at_least(2, "1024 will do"))
]
Candidates = Annotated[
    int,
    typer.Option(
        "--candidates", help="Candidates of a text unless the request says.", callback=at_least(2, "64 will do")
    ),
]
MaxBody = Annotated[
    int, typer.Option("--max-body", help="The most bytes of a request.", callback=at_least(1, "1048576 will do"))
]
Timeout = Annotated[
    float, typer.Option("--timeout", help="Seconds that a request may take.", callback=positive("300 will do"))
]
Grace = Annotated[
    float,
    typer.Option("--grace", help="Seconds to finish what runs when told to stop.", callback=at_least(0, "30 will do")),
]


def serve(
    run: RunFolder,
    detector: DetectorFolder = None,
    scorer: ScorerModel = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    api_key: Keys = None,
    allow_origin: Origins = None,
    queue: Queue = 64,
    candidates: Candidates = 64,
    max_candidates: MaxCandidates = 1024,
    max_tokens: MaxTokens = 1024,
    max_body: MaxBody = 2**20,
    timeout: Timeout = 300.0,
    grace: Grace = 30.0,
) -> None:
    """Serve a run's base LM and joint models over HTTP, as OpenAI's API, with a page to try them.

    The page is at /, OpenAI's paths below /v1. Needs the extra `serve`: pip install 'lexergy[serve]'.

    Examples:

    \b
      lexergy serve runs/quickstart
      lexergy serve runs/quickstart --detector runs/detector --scorer runs/electric-cpu/electric
      LEXERGY_API_KEY=secret lexergy serve runs/quickstart --host 0.0.0.0 --port 80
    """
    from lexergy.runs.records import load_run
    from lexergy.serve.extra import need_extra
    from lexergy.storage import fetched

    need_extra()
    keys = tuple(key.strip() for key in (api_key or "").split(",") if key.strip())
    if api_key is not None and not keys:
        raise LexergyError("`--api-key` is empty; expected a key; leave it out to serve without one.")
    load_run(run)  # says at once what is wrong with the folder
    from lexergy.models.detection.detector import STAGE, read_settings  # seconds to import: after what may be mistaken
    from lexergy.serve.api.catalogue import Source
    from lexergy.serve.api.server import serve as serve_source
    from lexergy.serve.api.settings import ServerSettings

    if detector is not None:
        detector = fetched(detector)
        read_settings(detector / STAGE if (detector / STAGE).is_dir() else detector)
    settings = ServerSettings(
        keys=keys,
        allowed_origins=tuple(allow_origin or ()),
        queue=queue,
        max_body_bytes=max_body,
        max_tokens=max_tokens,
        max_candidates=max(candidates, max_candidates),
        default_candidates=candidates,
        timeout_seconds=timeout,
        grace_seconds=grace,
    )
    serve_source(Source(run, detector, scorer), settings, host, port)

"""The command `lexergy`: its verbs, and what a person reads when something goes wrong."""

import errno
import io
import logging
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import typer

import lexergy
from lexergy.cli.memory import keep_freed_memory
from lexergy.cli.options import check_utf8
from lexergy.cli.threads import add_threads_option, spin_shortly
from lexergy.cli.verbs import (
    arena,
    data,
    detect,
    finetune,
    generate,
    lm_eval,
    mcmc,
    next_token,
    perplexity,
    pretrain,
    quickstart,
    report,
    reproduce,
    rerank,
    rescore,
    run,
    score,
    seq2seq,
    serve,
)
from lexergy.cli.verbs.explain import explain as explain_text
from lexergy.errors import LexergyError
from lexergy.files import final_name, first_line, is_keeping, keep_nothing
from lexergy.storage import addressed

app = typer.Typer(
    name="lexergy",
    help=(
        "Energy-based models for text: train an energy on a frozen language model's residual, "
        "measure honestly what it adds, write better text; tell machine text from people's, score and re-rank "
        "sentences, sample from masked language models.\n\n"
        "Start here:\n\n\b\n  lexergy quickstart\n  lexergy generate runs/quickstart --prompt 'Our economy'"
    ),
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

app.command("quickstart")(quickstart.quickstart)
app.command("run")(run.run)
app.command("generate")(generate.generate)
app.command("perplexity")(perplexity.perplexity)
app.command("next-token")(next_token.next_token)
app.command("mcmc")(mcmc.mcmc)
app.command("pretrain")(pretrain.pretrain)
app.command("score")(score.score)
app.command("rerank")(rerank.rerank)
app.command("rescore")(rescore.rescore)
app.command("lm-eval")(lm_eval.lm_eval)
app.command("serve")(serve.serve)
app.command("explain")(explain_text)
app.command("data")(data.data)
app.command("report")(report.report)
app.command("reproduce")(reproduce.reproduce)
app.add_typer(arena.app, name="arena")
app.add_typer(detect.app, name="detect")
app.add_typer(finetune.app, name="finetune")
app.add_typer(seq2seq.app, name="seq2seq")
add_threads_option(app)


def _show_version(asked: bool) -> None:
    if asked:
        print(lexergy.__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version and stop."
    ),
) -> None:
    pass


@cache
def _command() -> Any:
    """All verbs, put together once however many command lines are run."""
    return typer.main.get_command(app)


class Failure(NamedTuple):
    """What is printed on stderr, and the exit status."""

    message: str
    status: int


INTERRUPTED, TERMINATED = 130, 143  # exit statuses


def main() -> None:
    """Entry point of the console script."""
    try:
        _mend_streams()
        signal.signal(signal.SIGTERM, _terminate)
        quieten_libraries()
        spin_shortly()
        keep_freed_memory()
        status = run_command(sys.argv[1:])
        _close_stdout()
    except KeyboardInterrupt:
        status = _fail(_stopped(INTERRUPTED))
    sys.exit(status)


def _terminate(number: int, frame: object) -> None:
    """On SIGTERM: say whether it can go on, and let everybody clean up."""
    sys.exit(_fail(_stopped(TERMINATED)))


def _stopped(status: int) -> Failure:
    """How to go on is said only where something is kept."""
    return Failure("stopped; run the same command again to go on" if is_keeping() else "stopped", status)


def _mend_streams() -> None:
    """Streams that somebody has closed: nothing to read, nowhere to say what went wrong; results must go somewhere."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (open until the end)
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        sys.exit(_fail(Failure("error: standard output is closed; expected somewhere to write results", 1)))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without UTF-8 is no reason to fail


def run_command(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit status; mistakes in an input become a line on stderr."""
    keep_nothing()
    try:
        for argument in arguments:
            check_utf8(argument, f"the argument {ascii(argument)[:80]}")
        status = _command()(args=list(arguments) or ["--help"], prog_name="lexergy", standalone_mode=False) or 0
        sys.stdout.flush()
        # Typer turns Ctrl-C into this status before it gets here.
        return _fail(_stopped(status)) if status == INTERRUPTED else status
    except BrokenPipeError:  # the reader (`| head`) has what it wanted
        return 1
    except Exception as error:
        failure = explain(error)
        if failure is None or os.environ.get("LEXERGY_DEBUG"):
            raise
        return _fail(failure)


def explain(error: BaseException) -> Failure | None:
    """The message for a person if the error is theirs or the machine's; None if it is a bug of ours."""
    if isinstance(error, LexergyError):
        return Failure(f"error: {error}", 2)
    if type(error).__name__ == "NoArgsIsHelpError":  # `lexergy detect` alone: nobody has made a mistake yet
        return Failure(str(error.format_message()), 2)  # type: ignore[attr-defined]
    if isinstance(error, typer.TyperException):
        return Failure(f"error: {error.format_message()}{_help_hint(error)}", 2)
    if _is_disk_full(error):
        return Failure("disk full: make room, then run the same command again; finished work is kept", 1)
    if isinstance(error, MemoryError) or _is_out_of_memory(error):
        return Failure("out of memory: ask for less at once, or use a larger machine; finished work is kept", 1)
    if isinstance(error, OSError) and error.filename is not None:
        # A wrong path is a mistake in the input; what the machine refuses is not.
        status = 2 if isinstance(error, FileNotFoundError | NotADirectoryError | IsADirectoryError) else 1
        name = final_name(str(error.filename))
        return Failure(f"error: {name}: {error.strerror}; check the path and its permissions", status)
    if isinstance(error, OSError):
        return Failure(f"error: {first_line(error)}; check the files that were given", 1)
    return None


def quieten_libraries() -> None:
    """Keep the libraries' own chatter off the terminal; warnings of Lexergy itself become one line."""
    if os.environ.get("LEXERGY_DEBUG"):
        return
    for name, value in {
        "TRANSFORMERS_VERBOSITY": "error",
        "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1",
        "DATASETS_VERBOSITY": "error",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_VERBOSITY": "error",
        "TOKENIZERS_PARALLELISM": "false",
        "TQDM_DISABLE": "1",
    }.items():
        os.environ.setdefault(name, value)
    logging.basicConfig(format="%(message)s", level=logging.ERROR)
    logging.getLogger("lexergy").setLevel(logging.INFO)
    warnings.simplefilter("ignore")
    warnings.filterwarnings("default", module=r"lexergy(\.|$)")
    warnings.showwarning = _show_warning


def _show_warning(message, category, filename, lineno, file=None, line=None) -> None:  # type: ignore[no-untyped-def]
    print(f"warning: {message}", file=sys.stderr)


def _help_hint(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    return f"\nsee `{context.command_path} --help`" if context is not None else ""


def _is_disk_full(error: BaseException) -> bool:
    """Python's own OSError, or what the libraries in Rust and C++ make of it, anywhere in the chain."""
    cause: BaseException | None = error
    while cause is not None:
        if getattr(cause, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
            return True
        if "No space left on device" in str(cause) or "os error 28" in str(cause):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _is_out_of_memory(error: BaseException) -> bool:
    """What torch makes of it, on a CPU and on a GPU."""
    return isinstance(error, RuntimeError) and ("can't allocate memory" in str(error) or "out of memory" in str(error))


def _close_stdout() -> None:
    """Keep the interpreter's last flush quiet where stdout cannot be written (a closed pipe, a full disk)."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(failure: Failure) -> int:
    print(addressed(failure.message), file=sys.stderr)
    return failure.status

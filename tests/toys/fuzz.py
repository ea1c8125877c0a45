"""Calls and inputs that nobody would make on purpose: each must end as it should, or in a line that says why not."""

import contextlib
import io
import json
import random
import shutil
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import typer
import yaml

from lexergy.cli.main import app, run_command
from lexergy.errors import LexergyError
from lexergy.recipes.loader import COMMANDS, load_recipe, packaged_recipes, read_yaml

SECONDS = 60  # after which a call hangs
LONG = {"quickstart", "serve", "arena serve", "data"}  # that wait for somebody, or for the network
NUMBERS = ["0", "1", "2", "-1", "3.5", "nan", "inf", "-inf", "1e400", "99999999999999999999", "9" * 5000, "ten", ""]
TEXTS = [
    "",
    " ",
    "our union",
    "-",
    "--",
    "[MASK]",
    "\udcff",
    "\x00",
    "é🎉\u202e",
    "<script>alert(1)</script>",
    "x" * 9999,
]
VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    10**30,
    1e308,
    float("inf"),
    float("nan"),
    "",
    "../../x",
    [],
    {},
    [[]],
    {"a": 1},
]


class Failed(AssertionError):
    """A traceback, a hang, or a wrong exit status."""


class Fuzz:
    """Random calls on toys in a folder; the same seed makes the same ones. `run` is a finished run to be damaged."""

    def __init__(self, seed: int, folder: Path, run: Path) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.run = run
        self.files = [file for file in sorted(run.rglob("*")) if file.is_file() and file.name != ".lock"]
        self.commands = dict(_leaves(typer.main.get_command(app)))
        self.kinds: list[Callable[[], str]] = [self.a_call, self.a_recipe, self.a_file, self.a_damaged_run]
        self.inputs = self._make_inputs()

    def step(self) -> str:
        """One of them; what it was. `Failed` says what went wrong, and with what."""
        weights = (5, 40, 50, 5)  # the first and the last take longer
        return self.random.choices(self.kinds, weights)[0]()

    def a_call(self) -> str:
        """Any command with any arguments."""
        name = self.random.choice(sorted(self.commands.keys() - LONG))
        arguments = name.split()
        for parameter in self.commands[name].params:
            is_argument = parameter.param_type_name == "argument"
            if is_argument or (parameter.required and self.random.random() < 0.9) or self.random.random() < 0.15:
                if not is_argument:
                    arguments.append(parameter.opts[0])
                if not getattr(parameter, "is_flag", False):
                    arguments.append(self._argument(parameter.opts[0]))
        self._called(arguments)
        return "call"

    def a_recipe(self) -> str:
        """A packaged recipe with something changed, read as one of any kind."""
        content = read_yaml(self.random.choice(sorted(packaged_recipes().values())))
        for _ in range(self.random.randint(1, 3)):
            self._change(content)
        path = self.folder / "recipe.yaml"
        text = yaml.safe_dump(content)
        path.write_bytes(self._damaged(text.encode()) if self.random.random() < 0.3 else text.encode())
        kind = self.random.choice(sorted(COMMANDS, key=str))
        self._read(f"recipe {kind.__name__}\n{path.read_bytes()!r}", lambda: load_recipe(path, kind))
        return "recipe"

    def a_file(self) -> str:
        """A file of any format with damage, read by any reader."""
        source, reader = self.random.choice(self.inputs)
        path = self.folder / f"input{''.join(source.suffixes)}"
        content = source.read_bytes()
        for _ in range(self.random.randint(1, 4)):
            content = self._damaged(content)
        path.write_bytes(content)
        self._read(f"{reader.__name__} {source.name}\n{content[:2000]!r}", lambda: reader(path))
        return "file"

    def a_damaged_run(self) -> str:
        """A run of which a file is damaged, read by a command; then it is whole again."""
        file = self.random.choice(self.files)
        whole = file.read_bytes()
        try:
            if self.random.random() < 0.1:
                file.unlink()
            elif file.suffix == ".json" and self.random.random() < 0.6:
                content = json.loads(whole)
                self._change(content)
                file.write_text(json.dumps(content))
            else:
                file.write_bytes(self._damaged(whole))
            small = ["--prompt", "our union", "--seed", "1"]
            verbs = {
                "generate": [*small, "--candidates", "4", "--max-new-tokens", "2"],
                "next-token": [*small, "--samples", "2", "--horizon", "2"],
                "perplexity": self.random.choice([[], ["--samples", "2", "--windows", "1"]]),
            }
            verb = self.random.choice(sorted(verbs))
            self._called([verb, str(self.run), *verbs[verb], "--json"], f"{file.relative_to(self.run)} was damaged")
        finally:
            file.write_bytes(whole)
        return "damaged run"

    def _argument(self, option: str) -> str:
        paths = [
            str(self.folder),
            str(self.folder / "nowhere"),
            "/dev/null",
            "/proc/self/mem",
            str(self.folder / "recipe.yaml"),
        ]
        if option in ("--out", "--html"):
            return self.random.choice(["", "/proc/none/x", "/dev/null/x", str(self.files[0] / "x"), "a" * 5000])
        pool = self.random.choice([NUMBERS, TEXTS, paths, [str(source) for source, _ in self.inputs]])
        return self.random.choice(pool)

    def _change(self, content: Any) -> None:
        """Another value, a missing or a new one, somewhere in nested lists and mappings."""
        while isinstance(content, dict | list) and content:
            key = self.random.choice(sorted(content) if isinstance(content, dict) else range(len(content)))
            if isinstance(content[key], dict | list) and content[key] and self.random.random() < 0.8:
                content = content[key]
                continue
            change = self.random.random()
            if change < 0.2:
                del content[key]
            elif change < 0.3 and isinstance(content, dict):
                content[self.random.choice(["", "name", "unknown", "kind"])] = self.random.choice(VALUES)
            else:
                content[key] = self.random.choice(VALUES)
            return

    def _damaged(self, content: bytes) -> bytes:
        place = self.random.randrange(len(content) + 1)
        return self.random.choice(
            [
                content[:place],
                content[place:],
                content[:place] + self.random.randbytes(8) + content[place + 8 :],
                content[:place]
                + self.random.choice(TEXTS + NUMBERS).encode("utf-8", "surrogateescape")
                + content[place:],
                content + content[place:],
                content.replace(b"\n", b"\r\n"),
                b"[" * 5000 + content,
                b"",
            ]
        )

    def _called(self, arguments: list[str], circumstances: str = "") -> None:
        out, err = io.StringIO(), io.StringIO()
        shown = f"lexergy {' '.join(ascii(argument)[:200] for argument in arguments)} {circumstances}"
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _at_most(SECONDS, shown):
            try:
                status = run_command(arguments)
            except Failed:
                raise
            except BaseException:
                raise Failed(f"{shown}\n{traceback.format_exc()}") from None
        if status not in (0, 1, 2) or (status and not err.getvalue().strip()) or "Traceback" in err.getvalue():
            raise Failed(f"{shown}\nstatus {status}\n{err.getvalue()}")

    def _read(self, shown: str, read: Callable[[], Any]) -> None:
        with _at_most(SECONDS, shown):
            try:
                read()
            except LexergyError as error:
                if not str(error).strip():
                    raise Failed(f"{shown}\nan empty message") from None
            except Failed:
                raise
            except Exception:
                raise Failed(f"{shown}\n{traceback.format_exc()}") from None

    def _make_inputs(self) -> list[tuple[Path, Callable[[Path], Any]]]:
        from lexergy.data.candidate_lists import read_candidate_lists
        from lexergy.data.corpora import load_corpus
        from lexergy.data.labelled import load_questions
        from lexergy.data.nbest import load_nbest
        from lexergy.data.tagging.files import load_tagged
        from lexergy.data.texts import read_texts
        from lexergy.data.translation.pairs import load_pairs
        from lexergy.data.windows import Windows

        def texts(path: Path) -> None:
            list(read_texts([str(path)]))

        def corpus(path: Path) -> None:
            load_corpus(str(path))

        def candidates(path: Path) -> None:
            list(read_candidate_lists(str(path)))

        def questions(path: Path) -> None:
            load_questions(str(path))

        folder = self.folder / "inputs"
        folder.mkdir(exist_ok=True)
        rows = [{"text": "the state of our union", "id": number} for number in range(3)]
        hypotheses = [{"text": "our union", "score": -1.0}, {"text": "our onion", "score": -2.0}]
        question = {"id": "1", "question": "which?", "answers": [{"text": "red", "answer_start": 2}]}
        files = {
            "texts.jsonl": "".join(json.dumps(row) + "\n" for row in rows),
            "texts.txt": "= Title =\n\nthe state\n\n of our union\n",
            "lists.jsonl": json.dumps({"id": "a", "hypotheses": hypotheses, "reference": "our union"}) + "\n",
            "lists.json": json.dumps({"a": {"hyp_1": {"score": -1.0, "text": "our union"}, "ref": "our union"}}),
            "candidates.jsonl": json.dumps({"prompt": "our", "candidates": ["union", "state"]}) + "\n",
            "questions.json": json.dumps({"data": [{"paragraphs": [{"context": "a red wall", "qas": [question]}]}]}),
            "tagged.conll": "a\tD\ndog\tN\n\nbarks\tV\n",
            "pairs.tsv": "ein Hund\ta dog\neine Katze\ta cat\n",
        }
        for name, content in files.items():
            (folder / name).write_text(content)
        pyarrow.parquet.write_table(pa.Table.from_pylist(rows), folder / "texts.parquet")
        readers: dict[str, list[Callable[[Path], Any]]] = {
            "texts.jsonl": [texts, corpus],
            "texts.txt": [texts, corpus],
            "texts.parquet": [texts, corpus, Windows.load],
            "lists.jsonl": [load_nbest],
            "lists.json": [load_nbest],
            "candidates.jsonl": [candidates],
            "questions.json": [questions],
            "tagged.conll": [load_tagged],
            "pairs.tsv": [load_pairs],
        }
        return [(folder / name, reader) for name, own in readers.items() for reader in own]


def _leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, inner in getattr(command, "commands", {}).items():
        yield from _leaves(inner, (*path, name))
    if not hasattr(command, "commands"):
        yield " ".join(path), command


@contextlib.contextmanager
def _at_most(seconds: int, shown: str) -> Iterator[None]:
    """Fail where the block takes longer: it hangs."""

    def hang(number: int, frame: object) -> None:
        raise Failed(f"{shown}\nhangs: {seconds} s and no end\n{''.join(traceback.format_stack(frame)[-6:])}")  # type: ignore[arg-type]

    before = signal.signal(signal.SIGALRM, hang)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def fuzzed(seed: int, run: Path) -> Iterator[Fuzz]:
    """A fuzz in folders of its own, on a copy of the run."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        yield Fuzz(seed, Path(folder), shutil.copytree(run, Path(folder) / "run"))

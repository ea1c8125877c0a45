"""Calls and inputs that nobody would make on purpose: each must end as it should, or in a line that says why not.

The call of a number depends on the seed and the number alone, so that any of them can be made again.
"""

import contextlib
import copy
import functools
import io
import json
import random
import shutil
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import typer
import yaml

from lexergy.cli.main import app, run_command
from lexergy.errors import LexergyError
from lexergy.recipes.loader import COMMANDS, load_recipe, packaged_recipes, read_yaml
from toys.damage import NUMBERS, TEXTS, change, damaged
from toys.fuzz_inputs import write_inputs
from toys.timeless import timeless

SECONDS = 120  # of processor time after which a call hangs; five times as long where it only waits
LONG = {"quickstart", "serve", "arena serve", "data", "lm-eval"}  # that wait for somebody, or for the network
WRONG = ["ten", "nan", "-1", "", "1e400", "0x10", "9" * 5000, "--", "[]"]  # none of them is any option's number
WITHOUT_FOLDER = {"detect files", "detect evaluate", "detect stress"}  # an LM judges where no detector is named
SHARES = {"a call": 25, "a mistake": 20, "a recipe": 15, "a file": 25, "damage": 15}


class Failed(AssertionError):
    """A traceback, a hang, or a wrong exit status."""


class Reading(NamedTuple):
    """A command that succeeds, and the folder of a run or model that it reads; the command names it as FOLDER."""

    folder: Path
    arguments: tuple[str, ...]


class Outcome(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def steady(self) -> Any:
        """What was printed, without times."""
        decoder, text, values = json.JSONDecoder(parse_constant=_no_constant), self.out.strip(), []
        while text:
            value, end = decoder.raw_decode(text)
            values.append(timeless(value))
            text = text[end:].lstrip()
        return values


class Fuzz:
    """Random calls in a folder; `readings` are commands on finished runs and models, which are damaged."""

    def __init__(self, seed: int, folder: Path, readings: Sequence[Reading]) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.folder = folder
        self.readings = readings
        self.commands = dict(_leaves(typer.main.get_command(app)))
        self.kinds: dict[str, Callable[[], None]] = {
            "a call": self.a_call,
            "a mistake": self.a_mistake,
            "a recipe": self.a_recipe,
            "a file": self.a_file,
            "damage": self.damage,
        }
        self.inputs = write_inputs(folder / "inputs")
        self.whole = functools.cache(self._whole)

    def step(self, number: int, kind: str | None = None) -> str:
        """The call of this number; what it was. `Failed` says what went wrong, and with what."""
        self.random = random.Random(f"{self.seed}-{number}")
        drawn = self.random.choices(list(SHARES), list(SHARES.values()))[0]
        self.kinds[kind or drawn]()
        return kind or drawn

    def a_call(self) -> None:
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

    def a_mistake(self) -> None:
        """A command that would succeed, with one thing wrong in it: its status may not be 0."""
        reading = self.random.choice(self.readings)
        arguments = [*reading.arguments]
        options = self.commands[self._name(arguments)].params
        numeric = [option.opts[0] for option in options if option.type_descriptor.annotation in (int, float)]
        way = self.random.choice(["number", "number", "unknown", "nowhere", "missing"])
        if way == "number" and numeric:
            arguments += [self.random.choice(numeric), self.random.choice(WRONG)]
        elif way == "nowhere":
            place = arguments.index("FOLDER")
            arguments[place] = self.random.choice(["nowhere", str(self.folder / "inputs"), "/dev/null", "a" * 300, ""])
        elif way == "missing" and self._name(arguments) not in WITHOUT_FOLDER:
            arguments.remove("FOLDER")
        else:
            arguments.insert(self.random.randint(1, len(arguments)), f"--{self.random.choice(['no', 'x-y', 'seeed'])}")
        outcome = self._called([str(reading.folder) if part == "FOLDER" else part for part in arguments])
        if outcome.status == 0:
            raise Failed(f"{arguments}\nexit status 0 in spite of a mistake\n{outcome.out[:500]}")

    def a_recipe(self) -> None:
        """A packaged recipe with something changed, read as one of every kind."""
        content = copy.deepcopy(_packaged(self.random.choice(sorted(packaged_recipes()))))
        for _ in range(self.random.randint(1, 3)):
            change(content, self.random)
        path = self.folder / "recipe.yaml"
        text = yaml.dump(content, Dumper=yaml.CSafeDumper).encode()
        path.write_bytes((damaged(text, self.random).content or b"") if self.random.random() < 0.3 else text)
        kinds = self.random.sample(sorted(COMMANDS, key=str), len(COMMANDS))
        shown = f"recipe {path.read_bytes()!r}"
        if any(self._read(f"{shown} as {kind.__name__}", functools.partial(load_recipe, path, kind)) for kind in kinds):
            path.unlink()  # a later call that is given a sound recipe would train for hours

    def a_file(self) -> None:
        """A file of any format with damage, read by any reader."""
        source, reader = self.random.choice(self.inputs)
        path = self.folder / f"input{''.join(source.suffixes)}"
        content = source.read_bytes()
        for _ in range(self.random.randint(1, 4)):
            content = damaged(content, self.random).content or b""
        path.write_bytes(content)
        self._read(f"{reader.__name__} {source.name}\n{content[:2000]!r}", lambda: reader(path))

    def damage(self) -> None:
        """A run or model of which a file is damaged, read by a command; then it is whole again.

        What is gone or cut short must be noticed, or must not have mattered.
        """
        reading = self.random.choice(self.readings)
        whole = self.whole(reading)
        files = [file for file in sorted(reading.folder.rglob("*")) if file.is_file() and file.name != ".lock"]
        file = self.random.choice(files)
        content = file.read_bytes()
        try:
            if file.suffix == ".json" and self.random.random() < 0.5:
                changed, said, is_plain = json.loads(content), "another value", False
                change(changed, self.random)
                file.write_text(json.dumps(changed))
            else:
                new, is_plain, said = damaged(content, self.random)
                file.unlink() if new is None else file.write_bytes(new)
            circumstances = f"{file.relative_to(reading.folder)}: {said}"
            outcome = self._called(_on_folder(reading), circumstances)
            if outcome.status == 0 and outcome.steady != whole and is_plain:
                raise Failed(f"{reading.arguments} {circumstances}\nexit status 0 and another result\n{outcome.err}")
        finally:
            file.write_bytes(content)

    def _whole(self, reading: Reading) -> Any:
        outcome = self._called(_on_folder(reading))
        if outcome.status != 0:
            raise Failed(f"{reading.arguments} fails on what is whole: {outcome.err}")
        return outcome.steady

    def _name(self, arguments: Sequence[str]) -> str:
        return next(name for name in (" ".join(arguments[:2]), arguments[0]) if name in self.commands)

    def _argument(self, option: str) -> str:
        paths = [
            *(str(self.folder), str(self.folder / "nowhere"), str(self.folder / "recipe.yaml")),
            *("/dev/null", "/proc/self/mem", *(str(reading.folder) for reading in self.readings)),
        ]
        if option in ("--out", "--html"):
            return self.random.choice(["", "/proc/none/x", "/dev/null/x", str(self.inputs[0].path / "x"), "a" * 5000])
        pool = self.random.choice([NUMBERS, TEXTS, paths, [str(source.path) for source in self.inputs]])
        return self.random.choice(pool)

    def _called(self, arguments: Sequence[str], circumstances: str = "") -> Outcome:
        out, err = io.StringIO(), io.StringIO()
        shown = f"lexergy {' '.join(ascii(argument)[:200] for argument in arguments)} {circumstances}"
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _at_most(SECONDS, shown):
            try:
                outcome = Outcome(run_command(arguments), out.getvalue(), err.getvalue())
            except Failed:
                raise
            except BaseException:
                raise Failed(f"{shown}\n{traceback.format_exc()}") from None
            finally:
                torch.set_num_threads(1)  # `--threads` may be among the arguments
        silent = outcome.status and not outcome.err.strip()
        if outcome.status not in (0, 1, 2) or silent or "Traceback" in outcome.err:
            raise Failed(f"{shown}\nstatus {outcome.status}\n{outcome.err}")
        if outcome.status == 0 and "--json" in arguments:
            try:
                outcome.steady  # noqa: B018, it must be JSON
            except ValueError as error:
                raise Failed(f"{shown}\n{error} in what is printed: {outcome.out[:500]}") from None
        return outcome

    def _read(self, shown: str, read: Callable[[], Any]) -> bool:
        """Whether it could be read; if not, a line must say why."""
        with _at_most(SECONDS, shown):
            try:
                read()
                return True
            except LexergyError as error:
                if not str(error).strip():
                    raise Failed(f"{shown}\nan empty message") from None
                return False
            except Failed:
                raise
            except Exception:
                raise Failed(f"{shown}\n{traceback.format_exc()}") from None


def run_readings(run: Path) -> list[Reading]:
    """Commands that read a finished run."""
    small = ("--prompt", "our union", "--seed", "1")
    return [
        Reading(run, ("generate", "FOLDER", *small, "--candidates", "4", "--max-new-tokens", "2", "--json")),
        Reading(run, ("next-token", "FOLDER", *small, "--samples", "2", "--horizon", "2", "--json")),
        Reading(run, ("perplexity", "FOLDER", "--json")),
        Reading(run, ("perplexity", "FOLDER", "--samples", "2", "--windows", "1", "--json")),
    ]


@contextlib.contextmanager
def fuzzed(seed: int, readings: Sequence[Reading]) -> Iterator[Fuzz]:
    """A fuzz in a folder of its own, on copies of the runs and models."""
    with tempfile.TemporaryDirectory() as temporary, contextlib.chdir(temporary):
        folder = Path(temporary)
        copies = {
            whole: shutil.copytree(whole, folder / f"whole-{number}")
            for number, whole in enumerate(dict.fromkeys(reading.folder for reading in readings))
        }
        yield Fuzz(seed, folder, [Reading(copies[reading.folder], reading.arguments) for reading in readings])


@functools.cache
def _packaged(name: str) -> dict[str, Any]:
    return read_yaml(packaged_recipes()[name])


def _on_folder(reading: Reading) -> list[str]:
    return [part.replace("FOLDER", str(reading.folder)) for part in reading.arguments]


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


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

    limits = {signal.SIGPROF: (signal.ITIMER_PROF, seconds), signal.SIGALRM: (signal.ITIMER_REAL, 5 * seconds)}
    before = {number: signal.signal(number, hang) for number in limits}
    for timer, limit in limits.values():
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for number, (timer, _) in limits.items():
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])

"""Change one line of the sources at a time, and see whether a test fails.

`python tools/mutants.py draw 60 --seed 1 --run 'pytest -x tests/core' --run 'pytest -x'` draws 60
changes of `src`, such as `<` for `<=`, runs the commands in a copy of the project until one fails,
and adds each change to tools/mutants.json as killed or alive. `again` tries those of the file once
more, wherever their lines stand now, and fails if one that was killed lives. `table` prints the
counts. In a command `{file}` is the changed file and `{room}` the folder of its tests below tests,
so that these can run first. Who knows why no test can see a change writes "equivalent: the reason"
as its result.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from io import StringIO
from itertools import islice
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "tools" / "mutants.json"
SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+"}
SWAPS |= {"*": "/", "/": "*", "//": "*", "and": "or", "or": "and", "not": "", "True": "False"}
SWAPS |= {"False": "True", "min": "max", "max": "min", "amin": "amax", "amax": "amin", "&": "|"}
SWAPS |= {
    "any": "all",
    "all": "any",
    "sum": "max",
    "continue": "break",
    "is": "is not",
    "in": "not in",
}


@dataclass(frozen=True)
class Mutant:
    """A change of one token of a line, and what became of it."""

    file: str  # below src/nextloc_metrics
    line: str  # the text of the line, without blanks around it
    column: int  # of the token within that text
    old: str
    new: str
    result: str = ""  # "killed", "alive", "gone" or "equivalent: ..."

    def applied(self, sources: Path) -> tuple[Path, str] | None:
        """Return the file that has the line, which may have moved, and its changed text."""
        first = sources / self.file
        for path in sorted(sources.rglob("*.py"), key=lambda path: path != first):
            text = path.read_text(encoding="utf-8")
            for line in text.splitlines(keepends=True) if self.line in text else ():
                if line.strip() == self.line:
                    at = len(line) - len(line.lstrip()) + self.column
                    changed = line[:at] + self.new + line[at + len(self.old) :]
                    return path, text.replace(line, changed, 1)
        return None

    def is_program(self, sources: Path) -> bool:
        """Whether Python can compile the changed file."""
        path, text = self.applied(sources) or (Path(), "")
        try:
            compile(text, str(path), "exec")
        except SyntaxError:
            return False
        return True


def mutants_of(path: Path, sources: Path) -> list[Mutant]:
    """Return the changes of a file, on lines that occur once in it."""
    text = path.read_text(encoding="utf-8")
    counted = Counter(line.strip() for line in text.splitlines())
    found = []
    for token in tokenize.generate_tokens(StringIO(text).readline):
        line = token.line.strip()
        if token.type == tokenize.NUMBER and token.string.isdigit():
            new = str(int(token.string) + 1)
        elif token.type in (tokenize.OP, tokenize.NAME) and token.string in SWAPS:
            new = SWAPS[token.string]
        else:
            continue
        if counted[line] == 1 and not line.startswith(("import ", "from ", "@")):
            column = token.start[1] - (len(token.line) - len(token.line.lstrip()))
            found.append(Mutant(str(path.relative_to(sources)), line, column, token.string, new))
    return found


def draw(count: int, seed: int, but: list[str]) -> list[Mutant]:
    """Draw changes of different lines; a file is drawn as often as it has such changes."""
    sources = ROOT / "src" / "nextloc_metrics"
    files = sorted(sources.rglob("*.py"))
    kept = [x for x in files if not str(x.relative_to(sources)).startswith(tuple(but))]
    every = [mutant for path in kept for mutant in mutants_of(path, sources)]
    random.Random(seed).shuffle(every)
    of_lines = {(one.file, one.line): one for one in every}
    return list(islice((one for one in of_lines.values() if one.is_program(sources)), count))


def passes(commands: list[str], copy: Path, limit: float) -> bool:
    """Whether all commands pass in a copy of the project; one that does not end fails."""
    environment = os.environ | {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        for command in commands:
            subprocess.run(
                shlex.split(command),
                cwd=copy,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=limit,
                check=True,
            )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return False
    return True


def tried(mutant: Mutant, commands: list[str], copy: Path, limit: float) -> Mutant:
    """Change a copy of the project, run the commands, undo the change, and say what came of it."""
    applied = mutant.applied(copy / "src" / "nextloc_metrics")
    if applied is None:
        return replace(mutant, result="gone")
    path, text = applied
    before = path.read_text(encoding="utf-8")
    path.write_text(text, encoding="utf-8")
    room = next(x for x in Path(mutant.file).parents if (copy / "tests" / x).is_dir())
    filled = [x.format(file=f"src/nextloc_metrics/{mutant.file}", room=room) for x in commands]
    lives = passes(filled, copy, limit)
    path.write_text(before, encoding="utf-8")
    return replace(mutant, result="alive" if lives else "killed")


def try_all(mutants: list[Mutant], arguments: argparse.Namespace) -> list[Mutant]:
    """Try the changes, in as many copies of the project at a time as there are workers."""
    copies: Queue[Path] = Queue()

    def one(mutant: Mutant) -> Mutant:
        copy = copies.get()
        done = tried(mutant, arguments.run, copy, arguments.limit)
        copies.put(copy)
        print(done.result, f"{done.file}: {done.line!r}, {done.old} to {done.new}", flush=True)
        return done

    with tempfile.TemporaryDirectory() as folder:
        for number in range(arguments.workers):
            ignored = shutil.ignore_patterns(".git", "__pycache__", ".*_cache", "site")
            copies.put(shutil.copytree(ROOT, Path(folder, str(number)), ignore=ignored))
        whole = [x for x in arguments.run if "{" not in x]
        if not passes(whole, Path(folder, "0"), arguments.limit):
            raise SystemExit("the commands fail without a change")
        with ThreadPoolExecutor(arguments.workers) as pool:
            return list(pool.map(one, mutants))


def main() -> int:
    """Draw mutants, or try those of the record again, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["draw", "again", "table"])
    parser.add_argument("count", type=int, nargs="?", default=0)
    parser.add_argument("--run", action="append", default=[], help="a command, the fastest first")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--but", action="append", default=[], help="a folder that is left out")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--limit", type=float, default=900, help="seconds of one command")
    arguments = parser.parse_args()
    known = (
        [Mutant(**one) for one in json.loads(RECORD.read_text("utf-8"))] if RECORD.exists() else []
    )
    worse = []
    if arguments.what == "draw":
        known += try_all(draw(arguments.count, arguments.seed, arguments.but), arguments)
    if arguments.what == "again":
        now = try_all(known, arguments)
        worse = [one for was, one in zip(known, now, strict=True)
                 if was.result == "killed" and one.result == "alive"]  # fmt: skip
        known = [was if was.result.startswith("equivalent") and one.result == "alive" else one
                 for was, one in zip(known, now, strict=True)]  # fmt: skip
    rows = ",\n".join(json.dumps(asdict(one), ensure_ascii=False) for one in known)
    RECORD.write_text(f"[\n{rows}\n]\n", encoding="utf-8")
    print(*Counter(one.result.split(":")[0] for one in known).items())
    for one in worse:
        print(f"was killed, and lives: {one}")
    return int(bool(worse))


if __name__ == "__main__":
    sys.exit(main())

"""What a page says that was made on the command line: words and options of the shell, no Python."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

pytest.importorskip("click")
from click.testing import CliRunner

from command import main

#: two lists of answers, and one day of each of two users
TABLES = {
    "a.csv": 'preds,target,user,sure\n"[0, 1]",0,ann,0.9\n"[1, 2]",2,ann,0.4\n"[2, 0]",1,bob,0.5\n',
    "b.csv": 'preds,target,user,sure\n"[0, 2]",0,ann,0.1\n"[2, 1]",2,ann,0.7\n"[1, 0]",1,bob,0.6\n',
    "counts.txt": "5\n3\n0\n",
    "days.csv": "uid,d,t,x,y\n1,60,3,10,20\n1,60,9,11,24\n2,60,5,80,90\n",
}  # fmt: skip
COMMANDS = [
    "score a.csv --group user --cluster user --confidence sure --train-counts counts.txt "
    "--num-locations 3 --k 1,5",
    "compare a.csv b.csv --cluster user --k 1",
    "trajectories days.csv days2.csv",
    "report a.csv --group user --cluster user --train-counts counts.txt --num-locations 3 --k 1",
    "merge a.npz b.npz",
]
PYTHON = re.compile(r"`|\b\w+\(\w*[=)]|\bnextloc_metrics\b|\b(?:None|True|False)\b|\b\w+=(?!\")")


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.split()[0])
def test_a_page_from_the_command_line_has_no_python(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No call, argument, backtick or constant; the text of the page is that of tables and notes."""
    monkeypatch.chdir(tmp_path)
    copies = {"days2.csv": "days.csv"}
    for name, text in {**TABLES, **{copy: TABLES[of] for copy, of in copies.items()}}.items():
        Path(name).write_text(text, encoding="utf-8")
    for part in "ab" if "merge" in command else "":
        options = f"score {part}.csv --k 1 --num-locations 3 --group user --save {part}.npz"
        assert CliRunner().invoke(main, options.split()).exit_code == 0
    done = CliRunner().invoke(main, [*command.split(), "--out", "page.html"])
    assert done.exit_code == 0, done.output
    page = Path("page.html").read_text(encoding="utf-8")
    text = unescape(re.sub(r"<(script|style)\b.*?</\1>|<[^>]+>", " ", page, flags=re.DOTALL))
    assert command.split()[0] in text
    assert not PYTHON.findall(text)

"""The written pages: blocks run, links lead somewhere, the site builds and is complete."""

from __future__ import annotations

import doctest
import importlib
import inspect
import json
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

import nextloc_metrics

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [ROOT / x for x in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")]
    + [*(ROOT / "docs").rglob("*.md")]
)
NOTEBOOK = ROOT / "examples" / "next_location.ipynb"
BLOCK = re.compile(r"^(`{3,})(\w*)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return language and text of every fenced block."""
    return [
        (language, text) for _, language, text in BLOCK.findall(page.read_text(encoding="utf-8"))
    ]


BLOCKS = [(page.name, *block) for page in PAGES for block in blocks(page)]


def test_every_block_of_python_is_a_doctest() -> None:
    """What has no prompt is never run; and a fence right behind a result would be part of it."""
    for page, language, text in BLOCKS:
        assert language, f"{page} has a block without a language:\n{text}"
        if language in ("python", "pycon") and page != "README.md":  # test_readme.py runs that
            assert text.startswith(">>> "), (page, text)
            assert text.endswith("\n\n"), (page, text)
        else:
            assert ">>> " not in text, (page, text)


def test_links_lead_somewhere_in_the_repository() -> None:
    """Relative links are right where the files lie, as a code host shows them."""
    for page in PAGES:
        text = BLOCK.sub("", page.read_text(encoding="utf-8"))
        assert "][nextloc_metrics" not in text, page  # only the site would know where that leads
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            if not re.match(r"https?:|#", link):
                assert (page.parent / link.split("#")[0]).exists(), (page, link)


@pytest.mark.slow  # starts processes
def test_the_commands_of_the_tasks_print_what_stands_below(tmp_path: Path) -> None:
    """A reader who pastes the lines of a file of predictions sees the first lines of the table."""
    pytest.importorskip("click", reason="needs click, of the extra `cli`")
    page = blocks(ROOT / "docs" / "tasks.md")
    (commands,) = (text for language, text in page if language == "bash")
    (printed,) = (text for language, text in page if language == "text")
    score = f"{sys.executable} -m nextloc_metrics"
    lines = [line for line in commands.splitlines() if not line.startswith("pip ")]
    done = subprocess.run(
        "\n".join(lines).replace("nextloc-metrics", score),
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert done.stdout.startswith(printed)


#: runs the module of the tasks with so many processes, and prints what the first one logs
TWO_PROCESSES = """
import sys
if __name__ == "__main__":
    torch.manual_seed(0)
    module = Module()
    trainer = pl.Trainer(
        accelerator="cpu", devices=int(sys.argv[1]), strategy="ddp", logger=False,
        enable_progress_bar=False, enable_model_summary=False,
    )
    (values,) = trainer.validate(module, loader, verbose=False)
    if trainer.is_global_zero:
        print({name: value.hex() for name, value in values.items()})
"""


@pytest.mark.extra  # starts processes that import PyTorch
def test_the_module_of_the_tasks_counts_each_row_once(tmp_path: Path) -> None:
    """One process and two, which have 22 rows of 21, log the same bits, as the page stands."""
    pytest.importorskip("pytorch_lightning", reason="needs Lightning")
    page = (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8")
    first = page.split("```pycon\n")[1].split("```")[0]
    code = "".join(x.source for x in doctest.DocTestParser().get_examples(first))
    (tmp_path / "program.py").write_text(code + TWO_PROCESSES, encoding="utf-8")
    printed = [
        subprocess.run(
            [sys.executable, "program.py", processes],
            cwd=tmp_path,
            capture_output=True,
            encoding="utf-8",
            timeout=300,
            check=True,
        ).stdout.splitlines()[-1]
        for processes in ("1", "2")
    ]
    assert "val/mrr" in printed[0]
    assert printed[0] == printed[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built from this tree as a reader of the contributing page builds it."""
    pytest.importorskip("mkdocs", reason="needs mkdocs, of the extra `docs`")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "REPOSITORY_URL": ""},
        capture_output=True,
        encoding="utf-8",
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    return folder


@pytest.mark.slow
def test_the_site_is_whole(site: Path) -> None:
    """Nothing is fetched from another host, and every formula is drawn as MathML."""
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(PAGES)
    assert (site / "metrics" / "ranking" / "index.html").read_text("utf-8").count("<math") >= 10
    for page in pages:
        html = page.read_text(encoding="utf-8")
        assert 'class="arithmatex"' not in html, page
        for tag in re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", html):
            assert not re.search(r'(?:src|href)="(?:https?:)?//', tag), (page, tag)
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//", style.read_text(encoding="utf-8")), style


#: names without an underscore that only modules of this library use
INNER = """integrations.hugging_face.EvalPrediction integrations.libcity.Config"""


def public_names() -> set[str]:
    """Return the path of every public class and function."""
    modules = [
        y
        for x in nextloc_metrics.__all__
        if isinstance(y := getattr(nextloc_metrics, x), ModuleType)
    ]
    folder = str(Path(nextloc_metrics.__file__).parent / "integrations")
    modules += [
        importlib.import_module(f"nextloc_metrics.integrations.{adapter.name}")
        for adapter in pkgutil.iter_modules([folder])
    ]
    modules.remove(nextloc_metrics.functional)  # made from classes that have entries
    paths = set()
    for module in (nextloc_metrics, *modules):
        here = {x: y for x, y in inspect.getmembers(module) if isinstance(y, type | FunctionType)}
        own = [x for x, y in here.items() if y.__module__ == module.__name__ and x[0] != "_"]
        paths |= {
            f"{module.__name__}.{x}" for x in here.keys() & {*getattr(module, "__all__", own)}
        }
    return paths


def test_the_api_page_has_what_users_call(site: Path) -> None:
    """Every public name has an entry, and the methods that pages use; nothing private has one."""
    html = (site / "api" / "index.html").read_text(encoding="utf-8")
    entries = set(re.findall(r'id="(nextloc_metrics[\w.]*)"', html))
    inner = {f"nextloc_metrics.{name}" for name in INNER.split()}
    assert sorted(public_names() - entries - inner) == []
    calls = {
        "RankingMetric": "update forward compute interval standard_error plot num_queries read",
        "RankingCollection": "update forward compute compute_with_intervals table plot clustered",
        "LocationF1": "compute num_queries num_invented num_undecided",
        "Grouped": "update compute num_queries gap",
    }
    for kind, methods in calls.items():
        assert not {f"nextloc_metrics.{kind}.{x}" for x in methods.split()} - entries
    assert not [entry for entry in entries if re.search(r"\._(?!_call__)", entry)]


@pytest.mark.slow  # starts a kernel
def test_the_notebook_runs_from_top_to_bottom() -> None:
    """Stored without outputs, a kernel runs every cell in the folder of the examples."""
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
    pytest.importorskip("nbclient", reason="needs nbclient, of the extra `docs`")
    pytest.importorskip("ipykernel", reason="needs ipykernel, of the extra `docs`")
    # in a process of its own: the kernel's libraries warn of each other
    run = (
        "import sys, nbclient, nbformat\n"
        "notebook = nbformat.read(sys.argv[1], as_version=4)\n"
        "resources = {'metadata': {'path': sys.argv[2]}}\n"
        "nbclient.NotebookClient(notebook, timeout=900, resources=resources).execute()\n"
        "outputs = [output for cell in notebook.cells for output in cell.get('outputs', [])]\n"
        "print(sum('image/png' in output.get('data', {}) for output in outputs), 'pictures')\n"
        "print(''.join(output.get('text', '') for output in outputs))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", run, str(NOTEBOOK), str(NOTEBOOK.parent)],
        capture_output=True,
        encoding="utf-8",
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "3 pictures" in done.stdout
    assert re.search(r"^acc_at_1( +\d+\.\d\d){3}$", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^score, GRU .* \+\d+\.\d\d to \+", done.stdout, re.MULTILINE), done.stdout

"""What is written beside the code: blocks run, links lead somewhere, the site builds."""

from __future__ import annotations

import inspect
import json
import os
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torchmetrics

import nextloc_metrics

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
NOTEBOOK = ROOT / "examples" / "next_location.ipynb"
BLOCK = re.compile(r"^(`{3,})(\w*)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
# Shell lines that neither .ci/run nor .ci/extra runs as they stand, and why.
NOT_RUN = {
    "pip install nextloc-metrics": "needs a release",
    "pip install 'nextloc-metrics[cli]'": "needs a release",
    "nextloc-metrics score answers.csv --group user --cluster user --k 1 --k 5 --intervals "
    "--format json": "is run on other files by tests/test_files.py",
    "torchrun --nproc-per-node 2 --max-restarts 3 examples/score_shards.py PARTS OUT": "is run "
    "by tests/test_shards.py",
    "nextloc-metrics merge OUT/*.npz --out report.html": "is run by tests/test_files.py",
    "git clone https://github.com/xlwang233/LLM-Mob": "needs the network",
    "python examples/llm_mob.py LLM-Mob": "is run on other files by tests/test_examples.py",
    "pip install -e '.[examples]'": "is part of the extra `test`",
    "pytest tests/test_worked_examples.py tests/test_against_oracle.py "
    "tests/test_contract.py": "is part of `pytest`",
    "torchrun --nnodes 2 --nproc-per-node 2 --node-rank 0 --master-addr ADDRESS_OF_HOST_0 "
    "--master-port 29500 examples/ddp_evaluation.py": "needs a second host",
}

by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return language and text of every fenced block."""
    return [(language, text) for _, language, text in BLOCK.findall(page.read_text())]


@by_page
def test_every_block_of_python_is_a_doctest(page: Path) -> None:
    """What has no prompt is never run; and a fence right behind a result would be part of it."""
    for language, text in blocks(page):
        assert language, f"a block without a language:\n{text}"
        if language in ("python", "pycon"):
            assert text.startswith(">>> "), text
            assert text.endswith("\n\n"), text
        else:
            assert ">>> " not in text, text


@by_page
def test_every_shell_command_is_run(page: Path) -> None:
    """A command that is shown is one that CI runs, or listed here with a reason."""
    run = "".join((ROOT / ".ci" / name).read_text() for name in ("run", "extra"))
    for language, text in blocks(page):
        if language in ("bash", "shell"):
            for line in text.replace("\\\n", "").splitlines():
                for part in line.split("#")[0].split("&&"):
                    command = " ".join(part.split())
                    assert command in NOT_RUN or command in run, command


@by_page
def test_links_lead_somewhere_in_the_repository(page: Path) -> None:
    """Relative links are right where the files lie, as a code host shows them."""
    text = BLOCK.sub("", page.read_text())
    assert "][nextloc_metrics" not in text  # the site alone would know where that leads
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"https?:|#", link):
            assert (page.parent / link.split("#")[0]).exists(), link


def test_the_citation_names_this_version() -> None:
    """`CITATION.cff` and the page on citation speak of the version that is next or here."""
    citation = (ROOT / "CITATION.cff").read_text()
    (version,) = re.findall(r"^version: (\S+)$", citation, re.MULTILINE)
    project = (ROOT / "pyproject.toml").read_text()
    assert re.search(rf'^version = "{re.escape(version)}(\.dev\d+)?"$', project, re.MULTILINE)
    assert f"Version {version}," in (ROOT / "docs" / "project.md").read_text()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built from this tree as a reader of the contributing page builds it."""
    pytest.importorskip("mkdocs", reason="needs mkdocs, of the extra `docs`")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    return folder


def test_the_site_needs_nothing_from_elsewhere(site: Path) -> None:
    """No script, style, font or picture is fetched from another host."""
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(PAGES)
    for page in pages:
        html = page.read_text()
        for tag in re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", html):
            assert not re.search(r'(?:src|href)="(?:https?:)?//', tag), (page, tag)
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//", style.read_text()), style


def test_formulas_are_drawn(site: Path) -> None:
    """Every formula is MathML: none is left as it was typed."""
    html = (site / "metrics" / "ranking" / "index.html").read_text()
    assert html.count("<math") >= 10
    for page in site.rglob("*.html"):
        assert 'class="arithmatex"' not in page.read_text(), page


def test_the_api_page_has_every_public_name(site: Path) -> None:
    """What `__all__` exports has an entry, with its doctest as code."""
    html = (site / "api" / "index.html").read_text()
    anchors = set(re.findall(r'id="(nextloc_metrics[\w.]*)"', html))
    for name in nextloc_metrics.__all__:
        full = f"nextloc_metrics.{name}"
        assert any(anchor == full or anchor.startswith(f"{full}.") for anchor in anchors), name
    assert "<blockquote>" not in html  # of `>>>` that was not seen to be code


# Members that have no underscore since the classes of this library use each other's, and which are
# no part of what is promised.
INNER = {
    "what collections do with their members": {
        "add_state", "has_own_score", "has_own_update", "named_members", "numbers",
        "of_all_processes", "one_pass", "plan", "results",
        "state_key", "summed_at_once", "sync_context", "tallies",
        "will_all_reduce",
    },
    "how rankings are made, and what is kept beside them": {"cut", "from_relevant"},
    "how decile metrics differ from each other": {
        "cut", "deciles", "key", "name", "tally_split", "values",
        "DecileScore.score", "DecileNDCG.score", "DecilePrecision.score",
    },
}  # fmt: skip


def is_ours(kind: type) -> bool:
    """Whether a class is defined in this library."""
    return kind.__module__.split(".")[0] == "nextloc_metrics"


def test_the_api_page_has_every_public_member(site: Path) -> None:
    """What a class defines or inherits has an entry there, or is an attribute of a docstring.

    A member counts as shown where a class it comes from, or that comes from it, shows it.
    """
    html = (site / "api" / "index.html").read_text()
    anchors = set(re.findall(r'id="(nextloc_metrics[\w.]*)"', html))
    found = {anchor: pydoc.locate(anchor) for anchor in anchors}
    shown = {anchor: kind for anchor, kind in found.items() if inspect.isclass(kind)}
    assert len(shown) > 20
    flags = set(vars(torchmetrics.Metric)) | {"plot_lower_bound", "plot_upper_bound"}
    inner = {member for members in INNER.values() for member in members}
    missing = set()
    for kind in shown.values():
        ours = [base for base in kind.__mro__ if is_ours(base)]
        written = " ".join(inspect.cleandoc(vars(base)["__doc__"] or "") for base in ours)
        for base in ours:
            for name in {*vars(base), *inspect.get_annotations(base)}:
                member = vars(base).get(name)
                is_flag = name in flags and not callable(member)  # TorchMetrics has the same
                if name.startswith("_") or is_flag or name == "set_dtype":
                    continue
                if inner & {name, f"{base.__name__}.{name}"}:
                    continue
                showing = [
                    anchor
                    for anchor, other in shown.items()
                    if issubclass(kind, other) or issubclass(other, base)
                ]
                by_entry = any(f"{anchor}.{name}" in anchors for anchor in showing)
                is_method = callable(member) or isinstance(
                    member, property | classmethod | staticmethod
                )
                in_docstring = not is_method and re.search(rf"\b{name}(`|:)", written)
                if not by_entry and not in_docstring:
                    missing.add(f"{base.__name__}.{name}")
    assert not missing, sorted(missing)


def test_the_notebook_is_stored_without_outputs() -> None:
    """What it prints is made anew, and its differences can be read."""
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


def test_the_notebook_runs_from_top_to_bottom() -> None:
    """A kernel runs every cell in the folder of the examples, as a reader does."""
    pytest.importorskip("nbclient", reason="needs nbclient, of the extra `docs`")
    pytest.importorskip("ipykernel", reason="needs ipykernel, of the extra `docs`")
    # in a process of its own: the kernel's libraries warn of each other
    run = (
        "import sys, nbclient, nbformat\n"
        "notebook = nbformat.read(sys.argv[1], as_version=4)\n"
        "resources = {'metadata': {'path': sys.argv[2]}}\n"
        "nbclient.NotebookClient(notebook, timeout=240, resources=resources).execute()\n"
        "outputs = [output for cell in notebook.cells for output in cell.get('outputs', [])]\n"
        "print(sum('image/png' in output.get('data', {}) for output in outputs), 'pictures')\n"
        "print(''.join(output.get('text', '') for output in outputs))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", run, str(NOTEBOOK), str(NOTEBOOK.parent)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "3 pictures" in done.stdout
    assert re.search(r"^acc_at_1( +\d+\.\d\d){3}$", done.stdout, re.MULTILINE), done.stdout
    assert done.stdout.count("95 % interval") == 2

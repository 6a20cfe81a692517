"""The written pages: blocks run, links lead somewhere, the site builds and is complete."""

from __future__ import annotations

import datetime
import doctest
import inspect
import json
import os
import pkgutil
import pydoc
import re
import subprocess
import sys
from html import unescape
from pathlib import Path
from types import ModuleType
from typing import is_typeddict

import pytest
import torchmetrics

import nextloc_metrics
from project.test_imports import SOURCE, WINGS

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CHANGELOG.md"]
    + [page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "paper"]
)
NOTEBOOK = ROOT / "examples" / "next_location.ipynb"
BLOCK = re.compile(r"^(`{3,})(\w*)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
# Shell lines that no script of .ci runs as they stand, and why.
NOT_RUN = {
    "git clone https://example.org/nextloc-metrics": "needs the network",
    "cd nextloc-metrics": "needs the clone",
    "nextloc-metrics score predictions.parquet": "is run by tests/project/test_real_data.py",
    "pip install -e .": "is part of `pip install -e '.[test]'`",
    "pip install -e '.[cli]'": "is part of the extra `test`",
    "pip install -e '.[plot,analysis]'": "is part of the extra `test`",
    'printf \'preds,target,user\\n"[7, 3]",3,ann\\n"[5, 4]",5,bob\\n"[2, 9]",8,ann\\n\' > '
    "answers.csv": "is run below",
    "nextloc-metrics score answers.csv --k 1,2": "is run below",
    "nextloc-metrics score answers.csv --k 1 --group user --cluster user": "is run on other files "
    "by tests/report/files/test_files_by_command.py",
    "torchrun --nproc-per-node 2 --max-restarts 3 examples/score_shards.py PARTS OUT": "is run "
    "by tests/core/ranking/test_shards.py",
    "nextloc-metrics merge OUT/*.npz --out report.html": "is run by "
    "tests/report/files/test_files_by_command.py",
    "git clone https://github.com/xlwang233/LLM-Mob": "needs the network",
    "python examples/llm_mob.py LLM-Mob": "is run on other files by tests/project/test_examples.py",
    "pip install -e '.[lint,docs]'": "is installed by uv: `lint` in .ci/run, `docs` in .ci/extra",
    "pip install -e '.[examples]'": "is part of the extra `test`",
    "mkdocs build --strict": "is run below",
}

# Characters of code that fit in a window of 1,280 pixels, between navigation and contents.
WIDEST = 100

NAV = re.findall(
    r"^ +- (.+): (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE
)


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
        if language in ("python", "pycon"):
            assert text.startswith(">>> "), (page, text)
            assert text.endswith("\n\n"), (page, text)
        else:
            assert ">>> " not in text, (page, text)


def test_code_fits_beside_the_navigation() -> None:
    """No line of code needs a scroll bar; what a program prints may be wider."""
    for page, language, text in BLOCKS:
        widest = max(text.splitlines(), key=len)
        assert language == "text" or len(widest) <= WIDEST, (page, widest)


def test_the_navigation_has_the_titles_of_the_pages() -> None:
    """A reader finds on the page the words that were clicked."""
    for title, page in NAV:
        path = {"changelog.md": ROOT / "CHANGELOG.md"}.get(page, ROOT / "docs" / page)
        if not page.startswith("examples/"):  # made from a file of the examples
            assert path.read_text(encoding="utf-8").splitlines()[0] == f"# {title}", page


def test_every_shell_command_is_run() -> None:
    """A command that is shown is one that CI runs, or listed here with a reason."""
    if not (ROOT / ".ci").is_dir():
        pytest.skip("needs the scripts of a clone, which the source distribution does not have")
    run = "".join(
        (ROOT / ".ci" / name).read_text(encoding="utf-8") for name in ("run", "extra", "rare")
    )
    for page, language, text in BLOCKS:
        if language in ("bash", "shell"):
            for line in text.replace("\\\n", "").splitlines():
                for part in line.split("#")[0].split("&&"):
                    command = " ".join(part.split())
                    assert command in NOT_RUN or command in run, (page, command)


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


def test_the_lines_of_the_readme_are_those_of_the_tasks() -> None:
    """The calls that the README shows in Lightning are in the module that is run."""
    page = blocks(ROOT / "docs" / "tasks.md")[0][1]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = readme.split("## In Lightning")[1].split("```python\n")[1].split("```")[0]
    for line in re.findall(r"self\.(?:log_dict\(.*\)|metrics\.update\(|metrics = \w+)", shown):
        assert line in page, line


def test_the_contributing_page_names_what_exists() -> None:
    """Its table of wings is the one that imports are held against, and its files are there."""
    page = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| .+ \| (.*)\|$", page, re.MULTILINE)
    assert {wing: re.findall(r"`(\w+)`", below) for wing, below in rows} == WINGS
    files = re.findall(r"`([\w/]+/[\w.]+\.(?:py|md))`", page)
    assert len(files) >= 10
    for file in files:
        assert (ROOT / file).exists() or (SOURCE / file).exists(), file


def test_the_citation_has_what_its_format_requires() -> None:
    """The required keys of version 1.2.0 of the Citation File Format, and a date."""
    yaml = pytest.importorskip("yaml", reason="needs PyYAML")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["cff-version"] == "1.2.0"
    assert citation["message"]
    assert citation["title"].startswith("nextloc-metrics")
    assert all(author["name"] for author in citation["authors"])
    assert citation["type"] == "software"
    assert isinstance(citation["date-released"], datetime.date)


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


def test_the_site_needs_nothing_from_elsewhere(site: Path) -> None:
    """No script, style, font or picture is fetched from another host."""
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(PAGES)
    for page in pages:
        html = page.read_text(encoding="utf-8")
        for tag in re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", html):
            assert not re.search(r'(?:src|href)="(?:https?:)?//', tag), (page, tag)
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//", style.read_text(encoding="utf-8")), style


def test_formulas_are_drawn(site: Path) -> None:
    """Every formula is MathML: none is left as it was typed."""
    html = (site / "metrics" / "ranking" / "index.html").read_text(encoding="utf-8")
    assert html.count("<math") >= 10
    for page in site.rglob("*.html"):
        assert 'class="arithmatex"' not in page.read_text(encoding="utf-8"), page


# Names that have no underscore since other modules of this library use them.
INNER_NAMES = {
    "nextloc_metrics.core.backends.Reference",
    "nextloc_metrics.core.backends.Weights",
    "nextloc_metrics.core.backends.choose",
    "nextloc_metrics.core.backends.must_not_sync",
    "nextloc_metrics.distributed.count_surplus",
    "nextloc_metrics.integrations.hugging_face.EvalPrediction",
    "nextloc_metrics.integrations.libcity.Config",
    "nextloc_metrics.core.scoring.any_of_block",
    "nextloc_metrics.core.scoring.evaluate",
}

# Its functions are made from classes that have entries; the page lists them once.
MADE = {"nextloc_metrics.functional"}

# Classes of other modules that a user meets.
MET = {
    "nextloc_metrics.metrics.per_query.QueryScores": "is returned by `PerQueryScores.compute`",
    "nextloc_metrics.metrics.recommended.RecommendedTally": "has members of `Coverage`",
    "nextloc_metrics.core.metric.grouped.Gap": "is returned by `Grouped.gap`",
    "nextloc_metrics.metrics.recommended.FirstRanks": "says how the first candidates are read",
    "nextloc_metrics.metrics.confidence.ConfidenceTally": "says what metrics of confidence read",
    "nextloc_metrics.metrics.confidence.Reliability": "is returned by `CalibrationError`",
    "nextloc_metrics.metrics.visits.GroupShare": "is in `exploration_metrics`",
    "nextloc_metrics.metrics.visits.NewDecision": "is in `exploration_metrics`",
    "nextloc_metrics.analysis.chance.chance": "is `analysis.chance`: its module has the same name",
    "nextloc_metrics.core.queries.batch.Batch": "is the argument of `Record.read`",
    "nextloc_metrics.core.metric.distribution_metric.DistributionMetric": "has options of all "
    "metrics of probabilities",
    "nextloc_metrics.core.metric.mean.RecordMetric": "is the base of metrics that are no mean",
    "nextloc_metrics.core.metric.ranking_metric.RankingTally": "is the same for metrics of ranks",
    "nextloc_metrics.core.ranking.counting.TopCandidates": "is returned by "
    "`Ranking.top_candidates`",
    "nextloc_metrics.core.metric.summed.SummedMetric": "has hooks of metrics that are no mean",
}


def public_names() -> set[str]:
    """Return the path of every public class, function and module."""
    adapters = pkgutil.iter_modules([str(Path(nextloc_metrics.__file__).parent / "integrations")])
    paths = {f"nextloc_metrics.{name}" for name in nextloc_metrics.__all__}
    paths |= {f"nextloc_metrics.integrations.{adapter.name}" for adapter in adapters}
    for path in list(paths):
        module = pydoc.locate(path)
        if isinstance(module, ModuleType):
            paths.remove(path)  # it may be handed on; the page has the place where it stands
            paths.add(path := module.__name__)
            named = {
                name: value
                for name, value in inspect.getmembers(module)
                if inspect.isclass(value) or inspect.isfunction(value)
            }
            defined = [
                name
                for name, value in named.items()
                if value.__module__ == module.__name__ and not name.startswith("_")
            ]
            public = getattr(module, "__all__", defined)
            paths |= {f"{path}.{name}" for name in named.keys() & {*public}}
    return {x for x in paths - INNER_NAMES if x not in MADE and x.rpartition(".")[0] not in MADE}


@pytest.fixture(scope="module")
def entries(site: Path) -> set[str]:
    """Every name that has an entry on the API page."""
    html = (site / "api" / "index.html").read_text(encoding="utf-8")
    return set(re.findall(r'id="(nextloc_metrics[\w.]*)"', html))


def test_the_api_page_has_every_public_name(site: Path, entries: set[str]) -> None:
    """Each has an entry of its own, or is a module whose names have; doctests are code."""
    names = public_names()
    modules = {name for name in names if isinstance(pydoc.locate(name), ModuleType)}
    assert sorted(names - modules - entries) == []
    for module in modules:
        assert any(entry.startswith(f"{module}.") for entry in entries), module
    html = (site / "api" / "index.html").read_text(encoding="utf-8")
    assert "<blockquote>" not in html  # of `>>>` that was not recognised as code


def test_the_api_page_has_nothing_private(entries: set[str]) -> None:
    """An entry is a public name, a class that a user meets, or a public member of these."""
    allowed = public_names() | set(MET) | MADE
    inner = {member for members in INNER.values() for member in members}
    for entry in sorted(entries):
        owner, _, name = entry.rpartition(".")
        assert name == "__call__" or not name.startswith("_"), entry
        if entry not in allowed:
            assert inspect.isclass(pydoc.locate(owner)), entry
            assert owner in allowed, entry
            assert not inner & {name, f"{owner.rpartition('.')[2]}.{name}"}, entry


def test_the_api_page_has_what_users_call(entries: set[str]) -> None:
    """The methods that README and pages use have an entry where a reader looks for them."""
    calls = {
        "RankingMetric": "update forward compute interval standard_error plot num_queries read",
        "RankingCollection": "update forward compute compute_with_intervals table plot",
        "LocationF1": "compute num_queries num_invented num_undecided",
        "Grouped": "update compute num_queries group_names",
    }
    for kind, methods in calls.items():
        for method in methods.split():
            assert hasattr(getattr(nextloc_metrics, kind), method)
            assert f"nextloc_metrics.{kind}.{method}" in entries


def test_code_of_docstrings_fits_beside_the_navigation(site: Path) -> None:
    """No line of a docstring's code, of a signature or of an example needs a scroll bar."""
    pages = [site / "api" / "index.html", *(site / "examples").rglob("index.html")]
    assert len(pages) > 5
    for page in pages:
        for code in re.findall(
            r"<pre[^>]*>.*?<code>(.*?)</code></pre>", page.read_text(encoding="utf-8"), re.DOTALL
        ):
            lines = unescape(re.sub("<[^>]*>", "", code)).splitlines()
            assert max(map(len, lines), default=0) <= WIDEST, max(lines, key=len)


# Members that have no underscore since the classes of this library use each other's, and which are
# no part of what is promised.
INNER = {
    "what collections do with their members": {
        "add_state", "merge_state", "named_members", "plan", "results",
        "state_dict", "RankingCollection.members",
        "state_key", "summed_at_once", "sync_context", "tallies",
    },
    "how records are made, and what is kept beside them": {
        "cut", "Batch.check_scores", "Batch.has_ids", "Batch.read",
        "Needs.keeps_scores", "Needs.only_ranks", "Needs.to_find",
        "Queries.group_of", "Queries.with_groups", "Ranking.of_found", "TopCandidates.cat",
        "Distribution.weights", "Ranking.has_lengths",
    },
    "what distances read": {"Locations.check_known", "Locations.check_size"},
    "how metrics of probabilities score a query": {
        "AnsweredShare.score", "BrierScore.score", "DistributionMean.score",
        "ExpectedDistance.score", "NegativeLogLikelihood.score",
    },
    "how metrics of the rank itself and of lists differ": {
        "FirstRanks.read_first",
    },
    "how decile metrics differ from each other": {
        "cut", "deciles", "key", "name", "tally_split", "values",
        "DecileScore.score", "DecileNDCG.score", "DecilePrecision.score",
    },
    "what pictures and pages are called": {"PerQueryScores.label", "title"},
    "what Lightning calls": {
        "on_exception", "on_test_batch_end", "on_test_batch_start", "on_test_start",
        "on_validation_batch_end", "on_validation_batch_start", "on_validation_start",
        "setup", "teardown",
    },
    "how F1, precision and recall per location differ": {"divisor"},
}  # fmt: skip


def is_ours(kind: type) -> bool:
    """Whether a class is defined in this library."""
    return kind.__module__.split(".")[0] == "nextloc_metrics"


def test_the_api_page_has_every_public_member(entries: set[str]) -> None:
    """What a class defines or inherits has an entry there, or is an attribute of a docstring.

    A member counts as shown where a class it comes from, or that comes from it, shows it.
    """
    anchors = entries
    found = {anchor: pydoc.locate(anchor) for anchor in anchors}
    classes = (x for x in found.items() if inspect.isclass(x[1]) and not is_typeddict(x[1]))
    shown = dict(classes)
    assert len(shown) > 20
    flags = set(vars(torchmetrics.Metric)) | {"plot_lower_bound", "plot_upper_bound"}
    inner = {member for members in INNER.values() for member in members}
    missing = set()
    for kind in shown.values():
        ours = [base for base in kind.__mro__ if is_ours(base)]
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
                is_method = inspect.isroutine(member) or isinstance(
                    member, property | classmethod | staticmethod
                )
                related = [*ours, *map(shown.__getitem__, showing)]
                written = " ".join(vars(one)["__doc__"] or "" for one in related)
                in_docstring = not is_method and re.search(rf"\b{name}(`|:)", written)
                if not by_entry and not in_docstring:
                    missing.add(f"{base.__name__}.{name}")
    assert not missing, str(sorted(missing))


def test_the_notebook_is_stored_without_outputs() -> None:
    """What it prints is made anew, and its differences can be read."""
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
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
    assert done.stdout.count("95 % interval") == 2

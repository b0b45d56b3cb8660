"""Reports as tables for papers and pages."""

from __future__ import annotations

import csv
import io

import pytest

from optimist_client import FixError, Optimist
from tests.support.reports import report, standing, watched

ROWS = {"standings": [standing("b_2", 1.0), standing("50% & more|", 0.1 + 0.2, lower=None), standing("none", None)]}


def test_markdown_has_a_row_a_generator_with_the_best_first():
    assert report("50% & more|", **ROWS).table().splitlines() == [
        "| generator | FID | interval | samples |",
        "| --- | ---: | ---: | ---: |",
        r"| 50% & more\| | 0.300 | -∞ to 0.800 | 1,500 |",
        "| b_2 | 1.000 | 0.500 to 1.500 | 1,500 |",
        "| none | – | – | 1,500 |",
    ]


def test_latex_escapes_what_it_would_read_as_commands():
    lines = report("50% & more|", **ROWS).table("latex").splitlines()
    assert lines[0] == r"\begin{tabular}{lrrr}"
    assert lines[4] == r"50\% \& more| & 0.300 & -$\infty$ to 0.800 & 1,500 \\"
    assert lines[5].startswith(r"b\_2 & ")
    assert lines[-2:] == [r"\bottomrule", r"\end{tabular}"]


def test_csv_has_the_numbers_as_they_are_and_watched_metrics_where_they_are_wanted():
    made = report("50% & more|", **ROWS)
    watch = watched("rke", "b_2", standings=[*made.standings[1:], standing("b_2", 7.0)])
    made = made.model_copy(update={"watched": {"rke": watch}})
    head, first, second, last = csv.reader(io.StringIO(made.table("csv", metrics=True)))
    assert head == ["generator", "FID", "FID lower", "FID upper", "RKE", "RKE lower", "RKE upper", "samples"]
    assert [float(first[1]), first[2]] == [0.1 + 0.2, ""]
    assert (second[0], second[4], last[0], last[1:4]) == ("b_2", "7.0", "none", ["", "", ""])


def test_html_escapes_names():
    assert "<td>b &lt;i&gt;</td><td>1.000</td>" in report().table("html")


def test_an_unknown_format_is_refused():
    with pytest.raises(FixError, match="expected one of markdown, latex, csv, html; got 'pdf'"):
        report().table("pdf")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("url", ["localhost:8000", "127.0.0.1", "ftp://x", ""])
def test_an_address_that_is_not_of_http_is_refused_at_once(url: str):
    with pytest.raises(FixError, match="begins with http:// or https://"):
        Optimist(url)

"""The archive in results/, what the documents quote from it, and curves drawn beside it."""

import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest
from conftest import REPO
from frames import EXACT, MATRIX, STATED, curve, factorized, runs, seeds

from benchmark_dspdc.cli import main
from benchmark_dspdc.report import archive, claims, documents, results
from benchmark_dspdc.report.claims import HOLDS, UNKNOWN, judge
from benchmark_dspdc.report.results import GAP, LOOPS, REFERENCE, read_results

RESULTS = REPO / "results"
TYPICAL = (*seeds(STATED, (0.1, 0.11, 0.12)), *seeds("SPDC[m=1]", (0.2, 0.24, 0.22)),
           *seeds("SDCA[m=1]", (0.3, 0.3, 0.3), to=1e-5), *seeds(EXACT, (0.2, 0.21, 0.22)))


def measured(*curves, speed=1e-6, **more):
    """A frame as `figures` leaves it, with columns that say where it comes from."""
    words = {name: "word" for name in archive.ORIGIN.values()} | {
        "benchmark-commit": "0123456789ab", "run_date": "2026-11-19T10:00:00",
        "benchmark-started": "2026-11-19T09:58:00.5",
    }
    words["benchmark-shared"] = "no"
    numbers = {results.ASKED: 3, results.SPENT: 60.0, REFERENCE: speed, "unused": 1.0}
    frame = runs(*curves).assign(**words | numbers | more)
    gap = frame[GAP] * frame["objective_value"].abs().clip(lower=1.0)
    return frame.assign(objective_dual=frame["objective_value"] - gap)


@pytest.fixture
def made(tmp_path):
    """An archive of one file."""
    file = tmp_path / "figure1.parquet"
    measured(*TYPICAL).to_parquet(file)
    folder = tmp_path / "results"
    archive.add([file], folder)
    return folder


# The archive of this repository --------------------------------------------------------

@pytest.fixture(scope="module")
def verdicts():
    return judge(documents.archived_frame(RESULTS))


def test_the_archive_is_sound():
    assert archive.check(RESULTS) == []
    assert archive.read_index(RESULTS)


@pytest.mark.parametrize("name", documents.DOCUMENTS)
def test_documents_say_what_the_archive_says(verdicts, name):
    text = (REPO / name).read_text("utf-8")
    assert documents.PART.search(text)
    field = documents.archived_frame(RESULTS, documents.FIELD)
    made = documents.parts(verdicts, archive.read_index(RESULTS), field)
    assert documents.filled(text, made) == text, (
        "renew it: python -m benchmark_dspdc archive"
    )


def test_most_comparisons_of_the_archive_are_decided(verdicts):
    decided, unknown, _ = documents.decided_counts(verdicts)
    assert decided > 400 and unknown <= 0.06 * (decided + unknown)


# Adding and checking -------------------------------------------------------------------

def test_a_file_is_cut_to_what_reports_need_and_gives_the_same_verdicts(tmp_path):
    long = measured(*(curve(name, decade, points=700) for name, decade in (
        (STATED, 0.1), ("SPDC[m=1]", 0.2), ("SDCA[m=1]", 0.3))))
    small = archive.cut(long)
    assert len(small) < len(long) / 5
    assert "unused" not in small and set(small) <= set(archive.COLUMNS)
    assert judge(small) == judge(long)
    times = [results.to_targets(frame, results.GAPS) for frame in (small, long)]
    pd.testing.assert_frame_equal(*times)


def test_the_index_says_where_a_file_comes_from(made):
    entry = archive.read_index(made)["figure1.parquet"]
    assert entry["commit"] == "0123456789ab" and entry["date"] == "2026-11-19"
    assert (entry["problems"], entry["curves"], entry["seeds"]) == (1, 4, [3, 3])
    assert entry["wall_seconds"] == 60
    assert entry["bytes"] == (made / "figure1.parquet").stat().st_size
    assert archive.check(made) == []


def test_without_rounds_a_run_took_from_its_start_to_its_end(tmp_path):
    file = tmp_path / "regret.parquet"
    measured(*TYPICAL).drop(columns=[results.SPENT, results.ASKED]).to_parquet(file)
    archive.add([file], tmp_path / "results", "field")
    assert archive.read_index(tmp_path / "results")["field/regret.parquet"]["wall_seconds"] == 120


def test_a_file_of_unknown_origin_is_refused(tmp_path):
    file = tmp_path / "figure1.parquet"
    runs(*TYPICAL).to_parquet(file)
    with pytest.raises(ValueError, match="does not say where it comes from: benchmark-commit"):
        archive.add([file], tmp_path / "results")
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("name, apart, message", [
    ("figure 1.parquet", None, "has a name such as figure1.parquet"),
    ("figure1.parquet", "My Machine", "small letters"),
    ("figure1.parquet", "../other", "small letters"),
])
def test_names_of_files_and_folders_are_plain(tmp_path, name, apart, message):
    measured(*TYPICAL).to_parquet(tmp_path / name)
    with pytest.raises(ValueError, match=message):
        archive.add([tmp_path / name], tmp_path / "results", apart)


def test_runs_apart_have_a_folder_and_are_in_no_verdict(made, tmp_path):
    archive.add([tmp_path / "figure1.parquet"], made, "laptop")
    assert (made / "laptop" / "figure1.parquet").exists()
    assert archive.check(made) == []
    assert len(documents.archived_frame(made)) == len(read_results([made / "figure1.parquet"]))


def _other_checksum(folder):
    file = folder / "figure1.parquet"
    frame = pd.read_parquet(file)
    frame.loc[0, "time"] *= 0.5
    frame.to_parquet(file, index=False)


def _edited(folder, **words):
    index = archive.read_index(folder)
    index["figure1.parquet"] |= words
    (folder / "index.json").write_text(json.dumps(index))


@pytest.mark.parametrize("harm, sentence", [
    (_other_checksum, "its checksum differs"),
    (lambda folder: (folder / "figure1.parquet").unlink(), "there is no such file"),
    (lambda folder: shutil.copy(folder / "figure1.parquet", folder / "figure2.parquet"),
     "figure2.parquet is not in index.json"),
    (lambda folder: _edited(folder, commit="ffff"), "commit is ffff in index.json and 0123"),
])
def test_harm_to_an_archive_is_found(made, harm, sentence):
    harm(made)
    (found,) = archive.check(made)
    assert sentence in found


@pytest.mark.parametrize("more, sentence", [
    ({"benchmark-commit": "0123456789ab+"}, "measured with edits that no commit has"),
    ({"benchmark-shared": "yes"}, "measured with several curves at a time"),
    ({"objective_value": 2.0}, "gaps that are not those of its primal and dual values"),
    ({REFERENCE: np.nan}, "objective_reference_seconds missing"),
    ({"system-processor": ["a", "b"]}, "measured with several of processor: a, b"),
])
def test_what_cannot_be_compared_is_refused_and_found(tmp_path, made, more, sentence):
    frame = measured(*TYPICAL)
    for name, value in more.items():
        words = np.resize(value, len(frame)) if isinstance(value, list) else value
        frame[name] = words
    file = tmp_path / "figure1.parquet"
    frame.to_parquet(file)
    before = archive.read_index(made)
    with pytest.raises(ValueError, match=sentence):
        archive.add([file], made)
    assert archive.read_index(made) == before and archive.check(made) == []
    # Put there by hand.
    content = file.read_bytes()
    (made / "figure1.parquet").write_bytes(content)
    _edited(made, **archive._seal(content))
    assert sentence in archive.check(made)[0]


def test_two_files_of_one_name_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"several files are called figure1\.parquet"):
        archive.add([tmp_path / "a" / "figure1.parquet", tmp_path / "b" / "figure1.parquet"],
                    tmp_path)


def test_a_large_archive_is_found(made, monkeypatch):
    monkeypatch.setattr(archive, "MAX_BYTES", 100)
    assert "allowed are 100" in archive.check(made)[0]


@pytest.mark.parametrize("text", ["[]", "{", '{"figure1.parquet": 1}'])
def test_a_broken_index_is_named(made, text):
    (made / "index.json").write_text(text)
    with pytest.raises(ValueError, match="is no index of an archive"):
        archive.check(made)


def test_the_command_checks_this_archive(capsys):
    assert main(["archive", "--check"]) == 0
    assert main(["archive", "--check", "figure1.parquet"]) == 2
    assert "--check takes no files" in capsys.readouterr().err


# Documents -----------------------------------------------------------------------------

def on_all_kinds(**decades):
    """A frame with solvers on a problem of each kind, by how long a decade takes them."""
    sets = [names[0] for names in documents.KINDS.values()]
    family = dict(sklearn_ridge=documents.FAMILIES.index("peer"))
    return runs(*(
        curve(name, decade, f"{word}[n=100]", objective_family=family.get(name, 0))
        for word in sets for name, decade in decades.items()
    ))


FIELD = on_all_kinds(**{"Auto": 0.22, "SDCA[m=1.0,scaling=sampled]": 0.2, "SAGA[m=1]": 4.0,
                        "DSPDC[m=auto,q=auto]": 0.3, "sklearn_ridge": 0.1})


def test_methods_are_recommended_by_their_time_over_the_best_of_ours():
    lines = documents.parts(judge(runs(*TYPICAL)), {}, FIELD)["which"].splitlines()
    assert len(lines) == len(documents.KINDS)
    assert lines[1] == ("* **Sparse data** (1 problems): SDCA with all rows (1), then self-tuned "
                        "DSPDC (1.5); `solve(problem)` 1.1.")
    regret = documents.regrets(FIELD)
    assert (regret["SAGA[m=1]"] == documents.CUT).all()
    assert (regret["sklearn_ridge"] < 1.0).all()



def test_parts_of_documents_are_renewed_and_unknown_ones_refused():
    text = "a\n<!-- archive: one -->\nold\n<!-- end -->\nb\n<!-- archive: two -->\n<!-- end -->\n"
    new = documents.filled(text, {"one": "1", "two": "2"})
    assert new.count("\n1\n") == new.count("\n2\n") == 1 and "old" not in new
    assert documents.filled(new, {"one": "1", "two": "2"}) == new
    with pytest.raises(ValueError, match="no part of a document is called 'two'; there are one"):
        documents.filled(text, {"one": "1"})


def test_tables_have_medians_spreads_and_bounds():
    found = {(verdict.key, verdict.form): verdict for verdict in judge(runs(*TYPICAL))}
    lines = documents.ratio_table(found["figure 1", "as stated"]).splitlines()
    assert lines[0] == "| setting | rival | 1e-2 | 1e-4 | 1e-6 |"
    mine = [line for line in lines if "n=5000" in line and "lambda2=0.01" in line]
    assert re.search(r"\| SPDC \| 2 \(1\.8 to 2\.2\) \|", mine[0])
    assert re.search(r"\| SDCA \|.*\| at least 2 \|$", mine[1])
    # All have (m, q) = (1, 50), which is said once elsewhere.
    assert "(m, q)" not in lines[2]
    lines = documents.parts(found.values(), {}, FIELD)["answer"].splitlines()
    assert "| factorised data (figure 1) | SPDC | **3 of 3**, 2 |" in lines[2]
    assert lines[4].endswith("| undecided | undecided | undecided |")


def test_a_comparison_of_two_claims_is_counted_once():
    # As stated and partitions, beside two rivals, to three gaps.
    assert documents.decided_counts(judge(runs(*TYPICAL)))[0] == 12
    more = dict(objective_Lambda_11=1.0, objective_Lambda_p1=1e4)
    name = "MatrixRisk[d=100,n=100,p=100,random_state=0]"
    frame = runs(*(curve(solver, decade, name, MATRIX, **more) for solver, decade in (
        ("DSPDC[m=5,q=50,Lambda=partition]", 1.0), ("SPDC[m=5]", 2.0))))
    of_condition = next(verdict for verdict in judge(frame) if verdict.key == "condition")
    assert of_condition.outcome == HOLDS
    assert documents.decided_counts(judge(frame))[0] == 3


def test_ties_that_the_paper_claims_are_no_wins():
    name = "LIBSVM[d=20,name=real-sim,reduction=feature]"
    weak = "ERM[lambda1=0.0001,lambda2=0.01,loss=smoothed_hinge]"
    for decade, held, won in ((1.0, True, False), (3.0, False, True)):
        frame = runs(*(curve(solver, d, name, weak) for solver, d in (
            (STATED, 1.0), ("SPDC[m=1]", decade))))
        verdict = next(v for v in judge(frame) if v.key == "figure 2")
        rows = claims.rows_of(verdict, "SPDC")
        rows = [row for row in rows if row.outcome != UNKNOWN]
        assert len(rows) == 3
        assert all((row.outcome == HOLDS) == held and row.won == won for row in rows)


def test_seeds_that_disagree_are_said_to():
    frame = runs(curve(STATED, 0.1), curve("SPDC[m=1]", 1.0, to=1e-3),
                 curve(STATED, 1.0, rep=1, to=1e-3), curve("SPDC[m=1]", 0.1, rep=1))
    found = {(verdict.key, verdict.form): verdict for verdict in judge(frame)}
    assert "differs by seed" in documents.ratio_table(found["figure 1", "as stated"])


@pytest.mark.parametrize("between, text", [
    ([(1.0, 1.0), (2.0, 2.0), (4.0, 4.0)], "2"), ([(1.0, 1.0), (2.0, np.inf)], "at least 1.5"),
    ([(1.1, np.inf), (1.2, 1.2), (1.3, 1.3)], "1.2 to 1.3"), ([(0.0, 0.5)], "at most 0.5"),
])
def test_medians_of_bounds_say_what_is_known(between, text):
    assert documents._told(*np.median(between, axis=0)) == text


# Beside the archive --------------------------------------------------------------------

MINE = "Mine[step=1]"


def test_archived_times_are_on_the_scale_of_ones_own_machine():
    # The archive's machine took half the time for the loop.
    own = measured(*seeds(MINE, (0.2, 0.2)), speed=2e-6)
    archived = measured(*TYPICAL, *seeds("SAGA[m=1]", (1.0,), dataset=factorized(n=9)))
    frame = results.beside(own, [archived])
    assert set(frame["dataset_name"]) == {factorized()}
    times = results.to_targets(frame, (1e-2,))["seconds to 1e-02"].droplevel([0, 1])
    assert times[MINE, 0] == pytest.approx(0.4, rel=0.1)
    assert times["SPDC[m=1]", 0] == pytest.approx(0.8, rel=0.1)
    loops = frame.groupby("solver_name")[LOOPS].max()
    assert loops[MINE] == pytest.approx(own["time"].max() / 2e-6)
    assert loops["SPDC[m=1]"] == pytest.approx(0.24 * 8 / 1e-6, rel=0.01)
    notes = " ".join(frame.attrs["notes"])
    assert "beside the archive on Factorized" in notes and "multiplied by 2.00" in notes


def test_what_both_have_is_taken_from_ones_own_file_and_what_only_one_has_is_named():
    own = measured(*seeds("SPDC[m=1]", (0.5,)), *seeds(MINE, (0.1,), dataset=factorized(n=7)))
    frame = results.beside(own, [measured(*TYPICAL)])
    spdc = frame[frame["solver_name"] == "SPDC[m=1]"]
    assert spdc["time"].max() == pytest.approx(own[own["solver_name"] == "SPDC[m=1]"].time.max())
    notes = " ".join(frame.attrs["notes"])
    assert "not taken from the archive, as your file has it: SPDC[m=1]" in notes
    assert "other sources" not in notes
    assert re.search("not in the archive: Factorized.*n=7", notes)


def test_each_archived_machine_has_its_own_scale():
    own, slow, fast = (measured(curve(name, 0.1), speed=speed, **{"benchmark-curves": word})
                       for name, speed, word in ((MINE, 1e-6, "a"), ("SPDC[m=1]", 4e-6, "a"),
                                                 ("SDCA[m=1]", 5e-7, "b")))
    frame = results.beside(own, [slow, fast])
    times = frame.groupby("solver_name")["time"].max() / own["time"].max()
    assert times.to_dict() == pytest.approx({MINE: 1.0, "SPDC[m=1]": 0.25, "SDCA[m=1]": 2.0})
    assert "other sources" in " ".join(frame.attrs["notes"])


def test_seeds_of_ones_own_are_those_that_were_run():
    frame = results.beside(measured(*seeds(MINE, (0.1, 0.1)), **{results.ASKED: np.nan}),
                           [measured(*TYPICAL)])
    assert results.common_seeds(frame)["idx_rep"].nunique() == 2


def test_without_a_common_problem_or_a_reference_loop_it_says_so():
    with pytest.raises(ValueError, match=r"no problem of your file.*It has: Factorized"):
        results.beside(measured(curve(MINE, 1.0, factorized(n=7))), [measured(*TYPICAL)])
    with pytest.raises(ValueError, match="your file has no objective_reference_seconds"):
        results.beside(runs(curve(MINE, 1.0)), [measured(*TYPICAL)])


def test_report_draws_a_solver_beside_the_archive(tmp_path, monkeypatch, capsys):
    archived = documents.archived_frame(RESULTS)
    dataset, objective = archived[archived["dataset_name"].str.startswith("Factorized")][
        ["dataset_name", "objective_name"]].iloc[0]
    file = tmp_path / "mine.parquet"
    measured(curve(MINE, 0.1, dataset, objective)).to_parquet(file)
    report = tmp_path / "report"
    name = next(name for name in archive.read_index(RESULTS) if dataset in set(
        pd.read_parquet(RESULTS / name, columns=["dataset_name"])["dataset_name"]))
    name = name.removesuffix(".parquet")
    assert main(["report", str(file), "--with", name, "-o", str(report)]) == 0
    shown = capsys.readouterr().out
    assert "beside the archive on" in " ".join(shown.split())
    page = (report / "report.html").read_text()
    assert MINE in page and "SPDC[m=1]" in page and "reference loop" in page
    assert main(["report", str(file), "--with", "figure9", "-o", str(report)]) == 2
    assert "--with must be of" in capsys.readouterr().err



"""Runs from the command line: the same digest everywhere, kills and resumes included; bad input is one sentence."""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import warm

from perfed.disk import locked

PATIENCE = 900  # seconds after which something hangs; nothing here takes a minute on a quiet machine
SMALL = ["clients=4", "rounds=3", "partition=iid", "budget.lr=0.05", "data.fraction=0.2"]


def perfed(*words: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
    done = warm.run(words, timeout=PATIENCE)
    assert done.returncode == code, done.stderr
    return done


def count(lines: Path) -> int:
    return lines.read_text().count("\n") if lines.exists() else 0


def result(*words: str) -> Any:
    return json.loads(perfed(*words, "--json").stdout)


def test_a_run_reports_what_scripts_rely_on(tmp_path: Path) -> None:
    found = result("run", "method=fedper", *SMALL, "seeds=0,1", f"out={tmp_path}")
    assert {"method", "rounds", "seconds", "transport", "accuracy", "bytes_up", "bytes_down", "run", "digest"} <= set(found)
    assert found["method"] == "fedper" and found["rounds"] == 3 and len(found["digests"]) == 2
    for moment in ("best", "last", "validation"):
        assert {"round", "weighted", "mean", "std", "cv"} <= set(found["accuracy"][moment])
    folder = Path(found["run"])
    lines = (folder / "seed-1" / "rounds.jsonl").read_text().splitlines()
    assert [json.loads(line)["round"] for line in lines] == [0, 1, 2, 3]
    assert len(json.loads(lines[-1])["test"]["accuracy"]) == 4
    assert {"settings.yaml", "manifest.json", "summary.json"} <= {p.name for p in folder.iterdir()}
    body = 64 * 64 * 4 + 64 * 4  # the shared body of the embedded MLP, in float32
    assert found["bytes_up"] == found["bytes_down"] == body * 4 * 3 * 2  # clients, rounds, seeds


def test_a_run_that_diverges_says_so(tmp_path: Path) -> None:
    words = ["run", "method=fedavg", *SMALL[:3], "budget.lr=1e6", f"out={tmp_path}"]
    assert "FedAvg ran away" in perfed(*words).stdout
    found = result(*words)
    assert found["runaway"] == {"0": 1} and result("run", "method=fedavg", *SMALL, f"out={tmp_path}")["runaway"] == {}


def test_a_run_whose_curve_still_rises_says_so(tmp_path: Path) -> None:
    words = ["run", "method=fedavg", *SMALL, "rounds=8", "validation=0", "budget.lr=0.02", "transport=serial", f"out={tmp_path}"]
    said = perfed(*words).stdout
    assert "Curves still rise" in said and "FedAvg +" in said
    assert result(*words)["rising"]["rise"] > 0.001


def test_transports_and_repeats_give_one_digest(tmp_path: Path) -> None:
    ways = [
        ["transport=serial"],
        ["transport=pooled", "workers=1"],
        ["transport=pooled", "workers=2"],
        ["transport=pooled", "workers=3"],
    ]
    digests = {result("run", "method=fedcp", *SMALL, *way, f"out={tmp_path}")["digest"] for way in ways}
    assert len(digests) == 1


@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_at_random_moments_and_resumed_ends_in_the_same_bits(tmp_path: Path, kills: int) -> None:
    job = [
        "method=fedcac",
        "clients=4",
        "rounds=25",
        "partition=iid",
        "transport=pooled",
        "workers=2",
        "checkpoint=0",
        "model=cnn_bn",
        "data.fraction=0.4",
    ]
    straight = result("run", *job, f"out={tmp_path / 'straight'}")["digest"]
    out = tmp_path / "killed"
    luck = random.Random(0)
    command = ["run", *job, f"out={out}", "name=it"]
    lines = out / "it" / "seed-0" / "rounds.jsonl"
    for number in range(1, kills + 1):
        process = warm.Warm(command)
        warm.reached(process, lambda due=20 * number // kills: count(lines) > due)
        time.sleep(luck.uniform(0, 0.3))  # anywhere in the work of a round
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        command = ["resume", str(out / "it")]
    assert result("resume", str(out / "it"))["digest"] == straight


def test_a_run_given_more_rounds_ends_in_the_bits_of_a_longer_run(tmp_path: Path) -> None:
    job = ["method=fedcac", *SMALL, "seeds=0,1", "sampling.ratio=0.5", "transport=serial"]
    short = result("run", *job, "rounds=4", f"out={tmp_path}", "name=it")
    straight = result("run", *job, "rounds=9", f"out={tmp_path}", "name=straight")
    longer = result("resume", short["run"], "--rounds", "9")
    assert longer["digests"] == straight["digests"] != short["digests"]
    assert longer["rounds"] == 9 and longer["accuracy"] == straight["accuracy"]
    assert result("resume", short["run"], "--rounds", "9")["digests"] == straight["digests"]
    assert [one["rounds"] for one in json.loads((tmp_path / "it" / "manifest.json").read_text())["earlier"]] == [4]
    before = (tmp_path / "it" / "settings.yaml").read_bytes()
    assert "it can go on to more, not to 8" in perfed("resume", short["run"], "--rounds", "8", code=2).stderr
    assert (tmp_path / "it" / "settings.yaml").read_bytes() == before


def test_a_comparison_goes_on_to_more_rounds_unless_a_schedule_is_laid_out_for_its_length(tmp_path: Path) -> None:
    job = ["methods=fedavg,fedrep", *SMALL, "transport=serial", f"out={tmp_path}"]
    found = result("compare", *job, "name=it")
    straight = result("compare", *job, "rounds=5", "name=straight")
    longer = result("resume", found["run"], "--rounds", "5")
    assert {n: r["digest"] for n, r in longer["runs"].items()} == {n: r["digest"] for n, r in straight["runs"].items()}
    planned = result("compare", "methods=fedavg,fedphp", *SMALL, f"out={tmp_path}", "name=planned")
    said = perfed("resume", planned["run"], "--rounds", "5", code=2).stderr
    assert "the schedule of fedphp is laid out for its 3 rounds" in said
    assert "rounds: 3" in (tmp_path / "planned" / "fedavg" / "settings.yaml").read_text()


def test_cells_that_end_together_when_none_is_left_end_the_comparison() -> None:
    """The loop then has nobody to wait for; it waited for ever."""
    none = "from perfed.runs import parallel; parallel.train(iter(()), 2)"
    subprocess.run([sys.executable, "-c", none], timeout=PATIENCE, check=True)


def test_a_seed_goes_on_with_the_arithmetic_that_it_or_its_neighbour_began_with(tmp_path: Path) -> None:
    """A record of the days when auto measured: its first seed was stacked, so the second is."""
    found = result("run", "method=fedavg", *SMALL, "seeds=0,1", f"out={tmp_path}", "transport=stacked", "name=then")
    run = tmp_path / "then"
    for path, old, new in ((run / "settings.yaml", "transport: stacked", "transport: auto"),):
        path.write_text(path.read_text().replace(old, new))
    shutil.rmtree(run / "seed-1")
    shutil.copytree(
        run / "seed-0", run / "seed-1", ignore=lambda *_: ["transport.json", "rounds.jsonl", "final.json", "origin.json"]
    )
    for old in run.glob("seed-1/checkpoint*"):
        old.unlink()
    (run / "summary.json").unlink()
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["splits"]["1"] = manifest["splits"]["0"]
    (run / "manifest.json").write_text(json.dumps(manifest))
    assert result("resume", str(run))["digests"]["0"] == found["digests"]["0"]
    assert json.loads((run / "seed-1" / "transport.json").read_text())["why"] == "as measured for seed-0"


def deaf() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def test_a_comparison_in_the_background_of_a_script_ends_when_asked_to(tmp_path: Path) -> None:
    """Shells let such jobs ignore SIGINT, which is how a comparison tells its cells to write their checkpoints."""
    job = ["methods=local,fedavg", "data=digits", "clients=4", "rounds=100000", "partition=iid", "workers=2"]
    process = warm.Warm(["compare", *job, f"out={tmp_path}", "name=it"], first=deaf)
    lines = [tmp_path / "it" / method / "seed-0" / "rounds.jsonl" for method in ("local", "fedavg")]
    warm.reached(process, lambda: all(count(path) > 2 for path in lines))
    process.terminate()
    assert process.wait(PATIENCE) != 0
    assert all((path.parent / "checkpoint.json").exists() for path in lines)


def test_the_cells_of_a_killed_comparison_end_with_it(tmp_path: Path) -> None:
    """Nobody can ask them to any more: they notice by themselves, and what they had done is there to go on from."""
    job = ["methods=local,fedavg", "data=digits", "clients=4", "rounds=5000", "partition=iid", "workers=2"]
    process = warm.Warm(["compare", *job, f"out={tmp_path}", "name=it"])
    seeds = [tmp_path / "it" / method / "seed-0" for method in ("local", "fedavg")]
    warm.reached(process, lambda: all(count(path / "rounds.jsonl") > 2 for path in seeds))
    process.kill()
    for path in seeds:
        with locked(path / "lock", wait=True) as held:  # had only when whoever trains there is gone
            assert held and json.loads((path / "checkpoint.json").read_text())["round"] > 1
            assert count(path / "rounds.jsonl") < 5000


def test_a_comparison_always_shows_majority_and_local(tmp_path: Path) -> None:
    found = result("compare", "methods=fedavg,fedper", *SMALL, f"out={tmp_path}")
    assert [row["method"] for row in found["table"]][:2] == ["majority", "local"]
    assert (Path(found["run"]) / "report.html").stat().st_size > 10_000
    page = (Path(found["run"]) / "report.html").read_text()
    assert "http://" not in page.replace("http://www.w3.org", "") and "https://" not in page


def test_a_method_is_compared_with_its_variants(tmp_path: Path) -> None:
    """The report names what a variant sets; a field given for the method holds for its variants too."""
    listed, job = "methods=fedcp,fedcp:align=0,fedcp:align=1:policy=gumbel_train", [*SMALL, "transport=serial"]
    found = result("compare", listed, "fedcp.layers=2", *job, f"out={tmp_path}")
    assert list(found["runs"]) == ["fedcp", "fedcp-2", "fedcp-3", "local"]
    said = [Path(found["run"], name, "settings.yaml").read_text() for name in list(found["runs"])[:3]]
    assert [["layers: 2" in text, "align: 0" in text, "align: 1" in text, "gumbel" in text] for text in said] == [
        [True, False, False, False],
        [True, True, False, False],
        [True, False, True, True],
    ]
    alone = result("run", "method=fedcp", "method.layers=2", "method.align=0", *job, f"out={tmp_path}/alone")
    digests = {name: run["digest"] for name, run in found["runs"].items()}
    assert digests["fedcp-2"] == alone["digest"] and len(set(digests.values())) == 4
    assert [row["name"] for row in found["table"]][2:] == ["FedCP", "FedCP (align=0)", "FedCP (align=1, policy=gumbel_train)"]
    assert {name: run["digest"] for name, run in result("resume", found["run"])["runs"].items()} == digests


def test_methods_are_listed_with_what_crosses() -> None:
    rows = {row["name"]: row for row in result("methods")}
    assert {"name", "paper", "fields", "up", "down", "private"} <= set(rows["fedrep"])
    assert rows["fedrep"]["up"] == ["body"] and rows["fedrep"]["private"] == ["head"] and rows["local"]["up"] == []


BAD = {
    "setting": (["run", "rouds=3"], "did you mean 'rounds'"),
    "method": (["run", "method=fedrap"], "did you mean 'fedrep'"),
    "data": (["run", "data=digit"], "did you mean 'digits'"),
    "model": (["run", "model=mpl"], "did you mean 'mlp'"),
    "partition": (["run", "partition=dirichle"], "did you mean 'dirichlet'"),
    "method option": (["run", "method=fedcp", "method.aling=1"], "did you mean 'method.align'"),
    "variant": (["compare", "methods=fedavg,fedcp,fedcp"], "'fedcp' is listed twice with the same settings"),
    "variant option": (["compare", "methods=fedavg:aling"], "'fedavg:aling' is no variant of fedavg"),
    "type": (["run", "budget.lr=fast"], "budget.lr must be a valid number"),
    "alpha": (["run", "partition.alpha=0"], "alpha must be positive"),
    "clients": (["run", "clients=2000"], "cannot share 1797 samples"),
    "impossible": (["run", "clients=900", "partition.alpha=0.001"], "Dirichlet"),
    "batch": (["run", "budget.batch_size=0"], "batch_size must be at least 1"),
    "rounds": (["run", "rounds=0"], "rounds must be at least 1"),
    "fedbn": (["run", "method=fedbn"], "BatchNorm"),
    "fedprox": (["run", "method=fedprox", "method.spring=0"], "FedAvg"),
    "fedcac": (["run", "method=fedcac", "method.narrowing=0"], "narrowing"),
    "alone": (["run", "method=fedcac", "sampling.ratio=0.05"], "at least 2 participants"),
    "file": (["run", "nothing.yaml"], "cannot read settings"),
    "resume": (["resume", "nowhere"], "no run"),
    "report": (["report", "nowhere"], "nowhere"),
}


@pytest.mark.parametrize("case", sorted(BAD))
def test_bad_input_is_one_clear_sentence(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from perfed.cli import main

    words, said = BAD[case]
    extra = [f"out={tmp_path}"] if words[0] == "run" else []
    monkeypatch.setattr(sys, "argv", ["perfed", *words, *extra])
    with pytest.raises(SystemExit) as ended:
        main()
    heard = capsys.readouterr().err
    assert ended.value.code == 2
    assert said.lower() in heard.lower() and "Traceback" not in heard
    assert len(heard.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir()), "nothing was begun"


def test_damaged_files_are_named_and_nothing_is_lost(tmp_path: Path) -> None:
    folder = Path(result("run", "method=fedper", *SMALL, f"out={tmp_path}", "name=it")["run"])
    (folder / "seed-0" / "final.json").unlink()
    state = next((folder / "seed-0").glob("checkpoint-*.safetensors"))
    good = state.read_bytes()
    state.write_bytes(good[:-100])
    assert "checkpoint" in perfed("resume", str(folder), code=2).stderr
    state.write_bytes(good)
    split = folder / "seed-0" / "split.safetensors"
    kept = split.read_bytes()
    split.write_bytes(kept[:50] + bytes([kept[50] ^ 1]) + kept[51:])
    assert "split" in perfed("resume", str(folder), code=2).stderr
    split.write_bytes(kept)
    text = (folder / "settings.yaml").read_text()
    (folder / "settings.yaml").write_text(text.replace("lr: 0.05", "lr: 0.06"))
    assert "changed after the run began" in perfed("resume", str(folder), code=2).stderr
    (folder / "settings.yaml").write_text("{")
    assert "YAML" in perfed("resume", str(folder), code=2).stderr
    (folder / "settings.yaml").write_text(text)
    perfed("resume", str(folder))


def test_a_folder_that_belongs_to_another_run_is_left_alone(tmp_path: Path) -> None:
    folder = result("run", "method=fedper", *SMALL, f"out={tmp_path}", "name=it")["run"]
    assert "already holds a run" in perfed("run", "method=fedavg", *SMALL, f"out={tmp_path}", "name=it", code=2).stderr
    assert "is itself a run" in perfed("run", "method=fedavg", *SMALL, f"out={folder}", code=2).stderr


def test_two_processes_never_train_in_one_folder(tmp_path: Path) -> None:
    from perfed.errors import RunError
    from perfed.runs.folder import RunFolder

    folder = RunFolder(tmp_path).add_seed(0)
    with folder.alone(), pytest.raises(RunError, match="another process"), folder.alone():
        pass
    with folder.alone():  # free again
        pass


def test_a_place_that_cannot_be_written_is_one_sentence() -> None:
    done = perfed("run", *SMALL, "out=/proc/nowhere", code=2)
    assert "cannot write" in done.stderr and "Traceback" not in done.stderr and "checkpoint" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    from perfed.errors import RunError
    from perfed.runs.lines import Lines

    (tmp_path / "rounds.jsonl").symlink_to("/dev/full")
    with pytest.raises(RunError, match="disk is full"):
        Lines(tmp_path / "rounds.jsonl").append({"round": 0})


def limited() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))  # less than the state of four clients


def test_a_full_disk_at_a_checkpoint_is_one_sentence_and_loses_nothing(tmp_path: Path) -> None:
    """safetensors has an exception of its own, and the system's reason only in its words."""
    words = ["run", "method=ditto", *SMALL, "transport=serial", f"out={tmp_path}"]
    done = warm.run(words, timeout=PATIENCE, first=limited)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "File too large; the last checkpoint is intact" in done.stderr
    (folder,) = tmp_path.iterdir()
    assert json.loads(perfed("resume", str(folder), "--json").stdout)["rounds"] == 3


def test_help_helps() -> None:
    for verb in ("run", "compare", "resume", "methods", "report", "doctor", "data"):
        said = perfed(verb, "--help").stdout
        assert "Usage" in said and len(said) > 150 and "\\[" not in said

"""The paper's numbers as data: counts and sums were taken from its own source, table by table."""

import pytest

from leakscope.errors import InputError
from leakscope.metrics import METRICS
from leakscope.paper import NAMES, choose, read_target
from leakscope.paper.measured import DERIVED
from leakscope.paper.tracing import MEASURES

SIX, FIVE = ("ig", "sme", "fedleak", "gi-nas", "dggi", "nl-sme"), ("ig", "sme", "fedleak", "gi-nas", "nl-sme")
# table: settings, attacks, metrics, how many numbers it has, their sum
SHAPES = {
    "table1": (4, SIX, 5, 240, 487.4215),
    "table2": (1, SIX, 4, 48, 114.5113),
    "table3": (2, SIX, 4, 96, 261.8463),
    "table4": (5, ("nl-sme",), 1, 10, 113.1710),
    "table5": (4, ("nl-sme",), 5, 40, 106.3018),
    "table6": (4, ("nl-sme",), 1, 8, 98.6059),
    "table7": (4, ("nl-sme",), 1, 8, 103.0711),
    "table8": (1, SIX, 2, 12, 36.5737),
    "table9": (4, FIVE, 4, 160, 456.9636),
    "table10": (2, FIVE, 4, 80, 186.2411),
    "table11": (1, SIX, 4, 48, 113.7629),
    "table12": (1, SIX, 4, 48, 130.5478),
}


@pytest.mark.parametrize("name", SHAPES)
def test_every_table_is_whole(name):
    target = read_target(name)
    settings, attacks, metrics, count, total = SHAPES[name]
    assert (len(target.settings), target.attacks, len(target.metrics)) == (settings, attacks, metrics)
    for setting in target.settings:
        assert set(setting.reported) == set(attacks)
        assert all(set(values) == set(target.metrics) for values in setting.reported.values())
    pairs = [pair for one in target.settings for values in one.reported.values() for pair in values.values()]
    numbers = [number for pair in pairs for number in pair if number is not None]
    assert len(numbers) == count
    assert sum(numbers) == pytest.approx(total, abs=5e-5)


def test_some_entries_by_hand():
    assert read_target("table1").reported("CIFAR-100, T = 250", "nl-sme")["psnr"] == (21.0483, 0.4908)
    assert read_target("table1").reported("FEMNIST, T = 100", "dggi")["l_sim"] == (0.0408, 0.0051)
    assert read_target("table2").reported("CIFAR-100, rho = 0.75", "sme")["lpips"] == (0.3632, 0.0351)
    assert read_target("table3").reported("FEMNIST, sparsification 90 %", "gi-nas")["fsim"] == (0.7389, 0.0047)
    assert read_target("table4").reported("FEMNIST, epsilon = 1e1", "nl-sme")["psnr"] == (18.5352, 0.6150)
    switched = "CIFAR-100, trajectory off, calibration on"
    assert read_target("table5").reported(switched, "nl-sme")["l_sim"] == (0.0248, 0.0016)
    assert read_target("table8").reported("CIFAR-100, T = 100", "fedleak")["memory_gb"] == (5.0870, None)
    assert read_target("table9").reported("FEMNIST, ViT, B = 20", "ig")["ssim"] == (0.4335, 0.0115)
    assert read_target("table10").reported("FEMNIST, Soteria 80 %", "nl-sme")["lpips"] == (0.0463, 0.0111)
    organ = "OrganAMNIST64, E = 20, N = 20, B = 10"
    assert read_target("table12").reported(organ, "dggi")["psnr"] == (19.5164, 1.2697)


def test_clipping_repeats_the_undefended_columns_but_one():
    """In the paper itself: clipping at 4 does not bind, and only GI-NAS was run again."""
    clipped, clean = read_target("table3").settings[1].reported, read_target("table1").settings[0].reported
    same = {attack for attack in SIX if all(clipped[attack][m] == clean[attack][m] for m in clipped[attack])}
    assert same == set(SIX) - {"gi-nas"}


def test_figures_report_no_numbers():
    for name in NAMES:
        if not name.startswith("table"):
            assert all(setting.reported is None for setting in read_target(name).settings)


def test_every_metric_and_measure_exists():
    for target in choose("all"):
        known = set(METRICS) | set(DERIVED) if target.attacks else {"linear_error", *THEOREM}
        assert set(target.metrics) <= known, target.name
        assert target.attacks or target.name in MEASURES or target.kind == "diagram"


THEOREM = ("mismatch", "bound", "ratio", "lipschitz", "secant")


def test_an_unknown_name_is_explained():
    with pytest.raises(InputError, match="table1"):
        read_target("tabel1")

"""PyTorch's own tables of operators and modules, trained with a recorded backward: eager's bits, on other data too."""

import random
import re
import warnings

import generated_table
import pytest
import torch
from sampling import SEED, SOAK
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db

from native.operator_training import Training, chains, found_in, infers, known, more, reset_between, train

NODES = generated_table.in_force(generated_table.table("src/torch/*/torch_nodes.def"))
LISTED = set(re.findall(r'"(\w+)"', NODES.read_text()))


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("training", more(), ids=lambda training: training.name)
def test_nodes_of_models_are_listed(training: Training) -> None:
    trained = train(training)
    assert trained.nodes <= LISTED
    assert trained.outcome == "recorded"


@pytest.mark.slow
@pytest.mark.timeout(3600 if SOAK else 240)
@pytest.mark.usefixtures("fresh")
def test_gradients_are_eagers() -> None:
    entries = [*op_db, *module_db]
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        counts, found, differ = known(entries if SOAK else random.Random(5).sample(entries, 150), 6 if SOAK else 2)
    seen = set().union(*found.values())
    unlisted = sorted(name for name in seen - LISTED if "::" not in name)
    print(f"{dict(counts)}; {len(seen & LISTED)} nodes are listed, {len(unlisted)} are left to the engine: {unlisted}")
    assert not differ
    assert counts["recorded"] > 2 * counts["engine"]
    assert found["recorded"] <= LISTED


@pytest.mark.slow
@pytest.mark.timeout(3600 if SOAK else 240)
@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_under_autocast(dtype: torch.dtype) -> None:
    """Kernels that call operators which autocast handles are left to the engine (bilinear)."""
    entries = [*op_db, *module_db]
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        counts, _, differ = known(entries if SOAK else random.Random(6).sample(entries, 80), 4 if SOAK else 2, dtype)
        programs = [each._replace(dtype=dtype) for each in chains(op_db, 3000 if SOAK else 100, int(SEED))]
        more_counts, _, more_differ = found_in(programs)
    print(dict(counts), dict(more_counts))
    assert not differ + more_differ
    assert counts["recorded"] > counts["engine"] / 2
    assert more_counts["recorded"] > 0


@pytest.mark.slow
@pytest.mark.timeout(3600 if SOAK else 240)
@pytest.mark.usefixtures("fresh")
def test_three_operators() -> None:
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        programs = list(chains(op_db, 6000 if SOAK else 300, int(SEED)))
        counts, found, differ = found_in(programs)
        wrong = [program.name for program in reset_between(programs) if not infers(program)]
    print(dict(counts))
    assert not differ
    assert not wrong
    assert found["recorded"] <= LISTED
    assert 4 * counts["recorded"] > counts.total()
